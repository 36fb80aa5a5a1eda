Feature: Serving
  One command runs the server; HTTP and WebSocket share its port.

  @R32 @R34 @R36 @R43
  Scenario: avm serve starts a server that an AgentX client can use
    When I run "avm serve --port 0 --memory --model scripted"
    Then it says where HTTP and WebSocket are
    And a client that connects there is answered
    When that client asks for an image that does not exist
    Then the refusal is logged with its time, level and code
    And it ends with exit code 0 when it is told to stop

  @R29 @R35
  Scenario: the health of a server
    Given a running server
    When I get "/health"
    Then the status is 200
    And the answer is exactly its status "ok" and its version

  @R42
  Scenario Outline: a wrong HTTP request is answered in the one shape of errors
    Given a running server
    When I <method> "<path>"
    Then the status is <status>
    And the error has a code, a message, details and a request id

    Examples:
      | method | path    | status |
      | get    | /nope   | 404    |
      | get    | /ws     | 426    |
      | post   | /health | 405    |

  @R42
  Scenario: a wrong command is answered in the one shape of errors
    Given a running server
    And a client alice
    When alice runs an image that does not exist
    Then alice is told the error "Image not found: img_nope" with the code "image_not_found"
    And alice heard of it in a system_error first
