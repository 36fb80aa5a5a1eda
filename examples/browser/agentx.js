// The protocol: one socket that comes back by itself. No packages; docs/protocol.md says the rest.

export class AgentX {
  #socket; #url; #delay; #timer; #closed = false;
  #pending = new Map(); // request id -> { resolve, reject }
  #sessions = new Set();

  /** `onEvent(event)` for every event; `onState("on" | "wait", text)` whenever the socket comes or goes. */
  constructor(url, onEvent, onState) {
    Object.assign(this, { onEvent, onState });
    this.#url = url;
    this.#delay = 500;
    this.#open();
  }

  #open() {
    this.onState("wait", "Connecting");
    try {
      this.#socket = new WebSocket(this.#url);
    } catch {
      return this.onState("off", "Not a WebSocket URL");
    }
    this.#socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.#socket.onopen = () => {
      this.#delay = 500;
      for (const sessionId of this.#sessions) this.#send({ type: "subscribe", sessionId });
      this.onState("on", "Connected");
    };
    this.#socket.onclose = () => {
      for (const { reject } of this.#pending.values()) reject(new Error("The connection was lost"));
      this.#pending.clear();
      if (this.#closed) return;
      this.onState("wait", "Reconnecting");
      this.#timer = setTimeout(() => this.#open(), this.#delay * (0.8 + 0.4 * Math.random()));
      this.#delay = Math.min(this.#delay * 1.5, 10_000);
    };
  }

  #send(frame) { this.#socket.send(JSON.stringify(frame)); }

  #receive(event) {
    if ("__msgId" in event && "__payload" in event) {
      this.#send({ __ack: event.__msgId });
      event = JSON.parse(event.__payload);
    }
    const waiting = event.category === "response" && this.#pending.get(event.data.requestId);
    if (!waiting) return this.onEvent(event);
    this.#pending.delete(event.data.requestId);
    for (const sessionId of event.data.__subscriptions ?? []) {
      if (!this.#sessions.has(sessionId)) this.#send({ type: "subscribe", sessionId });
      this.#sessions.add(sessionId);
    }
    if (event.data.error) waiting.reject(new Error(event.data.error));
    else waiting.resolve(event.data);
  }

  request(type, data = {}) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("Not connected"));
    const requestId = `req_${Date.now()}_${Math.random().toString(36).slice(2)}`;
    return new Promise((resolve, reject) => {
      this.#pending.set(requestId, { resolve, reject });
      this.#send({
        type, timestamp: Date.now(), data: { ...data, requestId },
        source: "command", category: "request", intent: "request",
      });
    });
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }
}
