/** The parts of the TypeScript client that the first page needs. */

export { Channel, type ChannelState } from "../../../clients/typescript/src/channel.ts";
export { AgentVMError } from "../../../clients/typescript/src/errors.ts";
export { content, HttpClient } from "../../../clients/typescript/src/http.ts";
export type { AgentEvent, EventOf } from "../../../clients/typescript/src/frames.ts";
export type * from "../../../clients/typescript/src/types.ts";
