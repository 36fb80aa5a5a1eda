"""Chunk dictionary — the common parts of most chunks of a log, which are therefore not stored in each.

zlib compresses a chunk as if these bytes came before it: names of events, keys, and the usual course of a turn. A short turn
takes less than half of the bytes that way. A chunk names its dictionary by a checksum, so **this one may never change**;
another one is added beside it, for new chunks. Chunks that are older than dictionaries are read without one.
"""

DICTIONARY = (
    b'\x99\xacsystem_error\x00\x00\xc4{"message":,"severity":,"code":,"requestId":}\x99\xaeerror_received\x00\x00\xc4{"'
    b'errorCode":}\x99\xaeerror_occurred\x00\x00\xc4{"recoverable":}\x99\xb1container_created\x00\x00\xc4{"containerId"'
    b':,"createdAt":}\x99\xb1container_deleted\x00\x00\xc4{"deletedAt":}\x99\xadimage_created\x00\x00\xc4{"imageId":,"n'
    b'ame":}\x99\xadimage_updated\x00\x00\xc4{"updatedAt":,"description":}\x99\xadimage_deleted\x00\x00\xc4\x99\xb0agen'
    b't_registered\x00\x00\xc4{"agentId":,"definitionName":,"registeredAt":}\x99\xb2agent_unregistered\x00\x00\xc4\x99'
    b'\xafsession_created\x00\x00\xc4{"title":}\x99\xb5session_title_updated\x00\x00\xc4\x99\xafsession_updated\x00\x00'
    b'\xc4{"pinnedAt":,"archivedAt":}\x99\xafsession_deleted\x00\x00\xc4{"restorableUntil":}\x99\xb0session_restored'
    b'\x00\x00\xc4\x99\xaesession_forked\x00\x00\xc4{"originalSessionId":,"newSessionId":,"newImageId":,"forkedAt":}'
    b'\x99\xafsession_rewound\x00\x00\xc4{"rewindId":,"messageIds":,"rewoundAt":}\x99\xacsession_read\x00\x00\xc4{"unre'
    b'ad":,"readAt":,"userId":}\x99\xb5session_draft_updated\x00\x00\xc4{"device":,"removed":}\x99\xb1session_destroyed'
    b'\x00\x00\xc4\x99\xafresync_required\x00\x00\xc4{"cursor":}\x99\xadquota_warning\x00\x00\xc4{"metric":,"limit":,"u'
    b'sed":,"resetAt":}\x99\xb1provider_fallback\x00\x00\xc4{"from":,"to":,"retryAt":}\x99\xb1session_compacted\x00\x00'
    b'\xc4{"summaryId":,"tokens":}\x99\xabinterrupted\x00\x00\xc4\x99\xb1tool_call_message\x00\x00\xc4\x99\xb3tool_resu'
    b"lt_message\x00\x00\xc4\x99\xaderror_message\x00\x00\xc4\x99\xb3conversation_queued\x00\x00\xc4\x99\xb5conversatio"
    b'n_thinking\x00\x00\xc4\x99\xactool_planned\x00\x00\xc4{"toolId":,"toolName":}\x99\xaetool_executing\x00\x00\xc4{"'
    b'input":}\x99\xaetool_completed\x00\x00\xc4{"result":}\x99\xabtool_failed\x00\x00\xc4{"error":}\x99\xadmessage_sta'
    b'rt\x00\x00\xc4{"attempt":,"text":}\x99\xaethinking_delta\x00\x00\xc4\x99\xaetool_use_start\x00\x00\xc4{"toolCallI'
    b'd":}\x99\xb0input_json_delta\x00\x00\xc4{"partialJson":}\x99\xadtool_use_stop\x00\x00\xc4\x99\xabtool_result\x00'
    b'\x00\xc4{"isError":}\x99\xacturn_request\x00\x00\xc4{"clientKey":}\x99\xaeturn_suspended\x00\x00\xc4\x99\xacturn_'
    b"resumed\x00\x00\xc4\xabcontainerId\xa7\xa7imageId\xb9img_\xa7agentId\xbbagent_\xa9sessionId\xbasess_\xa6turnId"
    b'\xbaturn_\x9f\x99\xb1message_persisted\x00\x00\xc4j{"sessionId":"sess_","messageId":"msg_","savedAt":1}\xc0\x00'
    b'\x90\xc0\x90\x99\xacuser_message\x00\x00\xc4\x00\xb9msg_\x00\x90\xc0\x90\x99\xacturn_request\x00\x00\xc4i{"turnId'
    b'":"turn_","messageId":"msg_","timestamp":1}\xc0\x00\x90\xc0\x90\x99\xadmessage_start\x00\x0f\xc4r{"messageId":"ms'
    b'g__1","model":"","asked":"","askedAt":1}\xc0\x00\x90\xc0\x90\x99\xb2conversation_start\x00\x00\xc4+{"messageId":"'
    b'msg__1"}\xc0\x00\x90\xc0\x90\x99\xb8text_content_block_start\x00\x00\xc4\x02{}\xc0\x00\x90\xc0\x90\x99\xaatext_de'
    b"lta\x00\x00\xc4\x00\xbbmsg__1\x00\x91\n\xc0\x90\x99\xb7conversation_responding\x00\x00\xc4\x02{}\xc0\x00\x90\xc0"
    b"\x90\x99\xaatext_delta\x00\x00\xc4\x00\xbbmsg__1\n\x9b\x06\x06\t\n\x04\n\t\t\x04\x08\n\xc0\x90\x99\xb7text_conten"
    b't_block_stop\x00\x00\xc4\x02{}\xc0\x00\x90\xc0\x90\x99\xadmessage_delta\x00\x00\xc4.{"usage":{"inputTokens":12,"o'
    b'utputTokens":12}}\xc0\x00\x90\xc0\x90\x99\xacmessage_stop\x00\x00\xc4\x19{"stopReason":"end_turn"}\xc0\x00\x90'
    b"\xc0\x90\x99\xb1assistant_message\x00\x00\xc4\x00\xbbmsg__1\x00\x90\xc0\x90\x99\xb0conversation_end\x00\x00\xc4"
    b'\x16{"reason":"completed"}\xc0\x00\x90\xc0\x90\x99\xadturn_response\x00\x00\xc4\xef{"turnId":"turn_","messageId":'
    b'"msg_","outcome":"completed","stopReason":"end_turn","duration":15,"usage":{"inputTokens":12,"output'
    b'Tokens":12},"timestamp":1,"model":"","price":0}\xc0\x00\x90\xc0\x90'
)
