Feature: Definition, image, session, agent
  A definition is a template. Building it gives an image that never changes; a session is a history of the image; an agent is
  what runs.

  Background:
    Given the definition "poet" with the prompt "Answer in verse."
    And a running server
    And an application

  @R122 @R131
  Scenario: definitions can be queried
    Then the application lists the definitions "default, poet"
    And the application finds the definition "poet" with the prompt "Answer in verse."
    And the application finds no definition "critic"

  @R138
  Scenario: a definition can be registered while the server runs
    When the application registers "critic" with the prompt "Find fault."
    Then the application lists the definitions "default, poet, critic"
    And registering "critic" with the prompt "Find fault." again is allowed
    And registering "critic" with the prompt "Praise." is refused as "definition_conflict"

  @R124 @R125 @R126 @R128 @R132 @R139
  Scenario: a build fixes the configuration
    When the application builds "poet" as "Ode"
    Then the image "Ode" remembers that it was built from "poet"
    And an agent of "Ode" is told "Answer in verse."

  @R123 @R139
  Scenario: two builds of the same definition share one snapshot
    When the application builds "poet" as "Ode"
    And the application builds "poet" as "Elegy"
    Then "Ode" and "Elegy" have the same digest

  @R132
  Scenario: a build may say what the definition does not
    When the application builds "poet" as "Haiku" with the prompt "Answer in haiku."
    Then an agent of "Haiku" is told "Answer in haiku."
    And the application finds the definition "poet" with the prompt "Answer in verse."

  @R124 @R133 @R134
  Scenario: a definition that changes never changes an image
    Given the application built "poet" as "Ode" and talked to it
    When the server is restarted with the definition "poet" with the prompt "Answer in prose."
    Then an agent of "Ode" is told "Answer in verse."
    And what was said before is part of the conversation
    When the application builds "poet" as "Novel"
    Then an agent of "Novel" is told "Answer in prose."

  @R126 @R136
  Scenario: several sessions of one image share its configuration, not their history
    Given the application built "poet" as "Ode"
    When the application opens two sessions of "Ode" and says "one" in the first and "two" in the second
    Then the first session holds "one" and the second "two"
    And both were told "Answer in verse."
    And two agents run, one for each

  @R130 @R141
  Scenario: a session is a history with a title
    Given the application built "poet" as "Ode"
    When the application opens a session of "Ode"
    Then the session has no title and no status
    When the application calls it "Spring"
    Then the session is found under "Spring"

  @R129 @R133 @R134
  Scenario: resuming a session after a restart gives a new agent that remembers
    Given the application built "poet" as "Ode"
    And the application opened a session of "Ode" and said "one"
    When the server is restarted
    And the application resumes the session and says "two"
    Then it was another agent
    And what was said before is part of the conversation
