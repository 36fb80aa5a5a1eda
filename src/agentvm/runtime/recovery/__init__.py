"""Recovery — resumes the turns of a process that has ended. The story, in the order of a start:

1. `restart.Recovery.find`, before the first request is served, reads no history: the quarantine is loaded (`quarantine`), rows
   of turns without an end are listed, and the journal of the process before is folded into the logs of the sessions (`tails`),
   which says which turns had been stopped or suspended. Each turn is put into the inbox of its agent. Model calls of no turn
   that were under way are listed.
2. `restart.Recovery.run`, beside the server: turns are begun, many at once. Each attempt is counted in a commit before anything
   of its session is read, so a turn that kills the server is known to have done so. After `limits.attempts` crashes the turns
   that ran then are suspects and begin in groups, halved with each crash, until the one to blame is alone (`suspects`); its
   session goes into quarantine. Calls of no turn are charged (`settlement`).
3. `resumption.take_up`, when a turn begins: its own messages and the end of its log are read, which tell its progress
   (`progress`, pure): finished steps, tool calls without a result, and the message and the model call that were cut off.
4. `settlement.settle_finished`: the turn's earlier usage counts, and the call that was cut off is charged, once.
5. The turn continues (`agentvm.runtime.answering`): the message that clients have heard the beginning of is continued, stored
   results of tools are used, and a tool that was running is run again only if it is repeatable.

A session that cannot be read, or that is to blame for crashes, is quarantined and does not block other turns.
"""
