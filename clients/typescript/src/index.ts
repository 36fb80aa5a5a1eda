/** The client of AgentVM for browsers and Node, without packages. */

export { AgentX, createAgentX, DefinitionManager, ImageManager, type RemoteOptions, remoteRuntime, type RuntimeSource } from "./agentx.ts";
export { callOperation, type CallOptions, managementApi } from "./api.ts";
export { Channel, type ChannelOptions, type ChannelState, type Closed, type EventHandler, type StateHandler } from "./channel.ts";
export { AgentVMError } from "./errors.ts";
export type { AgentEvent, EventOf, Frame, Subscription, Unsubscribe } from "./frames.ts";
export { type Bytes, HttpClient, type HttpOptions, type Key } from "./http.ts";
export { HttpSocket } from "./http_socket.ts";
export { AgentManager, ContainerManager, type Ecosystem, EventStream, Runtime, SessionManager } from "./runtime.ts";
export { Agent, type Answer, type Content, type Message, type SendOptions, type SentTurn, Session } from "./session.ts";
export type * from "./types.ts";
