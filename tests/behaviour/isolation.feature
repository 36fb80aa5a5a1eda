Feature: Isolation
  What happens in one container is nobody else's business.

  Background:
    Given a running server
    And a client alice
    And a client bob
    And alice has an image in "user-alice"
    And bob has an image in "user-bob"

  @R37 @R40
  Scenario: each sees the images of their own container
    Then alice sees 1 image in "user-alice"
    And bob sees 1 image in "user-bob"
    And alice sees only her own images when she names no container
    And bob sees only his own images when he names no container

  @R40
  Scenario: a conversation is heard by its own client only
    When alice sends "this is private"
    Then bob heard nothing of it

  @R40
  Scenario: a failure is told to the one who asked
    When alice runs an image that does not exist
    Then bob heard nothing of it

  @R40
  Scenario: stopping the agents of one container leaves the other's running
    When alice sends "hello"
    And bob sends "hello"
    And alice destroys all agents of "user-alice"
    Then alice's image is offline
    And bob's image is online

  @R40
  Scenario: a slow answer in one container does not delay another
    When alice starts a slow answer
    And bob sends "hello"
    Then bob hears "hello" in 1 piece
