Feature: Conversations
  A user works in a container, talks to an image, and hears the answer while it is made.

  Background:
    Given a running server
    And a client alice

  @R24 @R25 @R26 @R27 @R28 @R37 @R38 @R39 @R58
  Scenario: the first conversation
    When alice creates the container "user-alice"
    And alice creates the image "My Assistant" in "user-alice" with the prompt "You are helpful"
    And alice sends "Hello, how are you?"
    Then alice hears "Hello, how are you?" in 4 pieces
    And the model was told "You are helpful"

  @R24
  Scenario: a container is created once and found again
    When alice creates the container "user-alice"
    And alice creates the container "user-alice"
    Then alice heard container_created 1 time
    And there is 1 container

  @R71
  Scenario: a conversation of several turns is remembered
    Given alice has an image in "user-alice"
    When alice sends "My name is Ada"
    And alice sends "What is my name?"
    Then the model was asked with 3 things said before
    And the history is
      | who       | text             |
      | user      | My name is Ada   |
      | assistant | My name is Ada   |
      | user      | What is my name? |
      | assistant | What is my name? |

  @R57
  Scenario: the life of an agent
    Given alice has an image in "user-alice"
    When alice runs the image
    Then the image is online
    When alice sends "first"
    And alice stops the image
    Then the image is offline
    When alice runs the image
    Then the image is online with another agent
    When alice sends "second"
    Then the model was asked with 3 things said before

  @R57
  Scenario: an answer can be interrupted, and what was said is kept
    Given alice has an image in "user-alice"
    When alice starts a slow answer
    And alice interrupts it
    Then the turn ended as "interrupted"
    And the history is
      | who       | text   |
      | user      | slow   |
      | assistant | w0 w1  |

  @R59
  Scenario: every step of an answer is an event
    Given alice has an image in "user-alice"
    When alice sends "tool please"
    Then alice heard these events in order
      | event               |
      | message_persisted   |
      | message_start       |
      | conversation_start  |
      | text_delta          |
      | tool_use_start      |
      | tool_planned        |
      | input_json_delta    |
      | tool_use_stop       |
      | tool_call_message   |
      | message_stop        |
      | assistant_message   |
      | tool_result         |
      | tool_result_message |
      | message_start       |
      | text_delta          |
      | message_stop        |
      | assistant_message   |
      | conversation_end    |
      | turn_response       |

  @R71
  Scenario: a conversation goes on after the server was restarted
    Given alice has an image in "user-alice"
    When alice sends "My name is Ada"
    And the server is restarted
    And alice sends "What is my name?"
    Then the image is online with another agent
    And the model was asked with 3 things said before
