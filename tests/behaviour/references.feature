Feature: Agents refer to resources
  What an agent is made of may be named instead of written out. A build follows the names once, and keeps what it found.

  Background:
    Given a running server
    And a client alice
    And the prompt "sales-v2" says "Sell {{product}} with charm."

  @R68
  Scenario: I register a new prompt
    When alice registers the prompt "greeting" that says "Greet {{name}}."
    Then "resource://prompts/greeting@1.0.0" resolves to "Greet Ada." for "Ada"

  @R69
  Scenario: I discover which tools are available
    When alice looks for tools
    Then she finds "current_time" and "calculator" among others
    When alice looks for tools about "时区"
    Then she finds "current_time"

  @R70
  Scenario: my agent references a prompt
    When alice creates an image that refers to "resource://prompts/sales-v2" for "tea"
    And alice sends "hello"
    Then the model was told "Sell tea with charm."
    And the image says where its prompt came from: "resource://prompts/sales-v2", version "1.0.0"

  @R70
  Scenario: a reference that leads nowhere creates nothing
    When alice refers to "resource://prompts/sales-v3" for "tea"
    Then alice is told the error "Resource not found: resource://prompts/sales-v3" with the code "resource_not_found"
    And there are 0 containers

  @R124
  Scenario: a resource that changes, is withdrawn or is deleted never changes a session
    Given alice has an image that refers to "resource://prompts/sales-v2" for "tea"
    When the prompt "sales-v2" says "Sell {{product}} at any price."
    And alice sends "hello"
    Then the model was told "Sell tea with charm."
    When the prompt "sales-v2" is withdrawn and deleted
    And the server is restarted
    And alice sends "hello again"
    Then the model was told "Sell tea with charm."
    And the model was asked with 3 things said before

  @R124
  Scenario: an upgrade is asked for, and says what it changes
    Given alice has an image that refers to "resource://prompts/sales-v2" for "tea"
    When the prompt "sales-v2" says "Sell {{product}} gently."
    And alice asks what an upgrade would change
    Then the prompt would change from "Sell tea with charm." to "Sell tea gently."
    When alice sends "one"
    Then the model was told "Sell tea with charm."
    When alice upgrades the image
    And alice sends "two"
    Then the model was told "Sell tea gently."

  @R122 @R131 @R138
  Scenario: an agent among the resources is a definition
    Given the agent "seller" refers to "resource://prompts/sales-v2" for "books"
    Then alice finds the definition "seller" with the prompt "resource://prompts/sales-v2"
    When alice builds "seller"
    And alice sends "hello"
    Then the model was told "Sell books with charm."
    And alice cannot register another definition "seller"
