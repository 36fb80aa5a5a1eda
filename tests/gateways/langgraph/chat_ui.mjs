// The hook of Agent Chat UI, useStream of @langchain/langgraph-sdk/react, used as that app uses it, in a document of jsdom.
import { JSDOM } from "jsdom";

const [url, relayUrl] = process.argv.slice(1);
const dom = new JSDOM("<!doctype html><div id='root'></div>", { url });
const { window } = dom;
Object.assign(globalThis, { window, document: window.document, IS_REACT_ACT_ENVIRONMENT: false });

const hooks = { now: await import("@langchain/langgraph-sdk/react"), earlier: await import("langgraph-sdk-1/react") };
const React = await import("react");
const { createRoot } = await import("react-dom/client");

const human = (text) => ({ id: crypto.randomUUID(), type: "human", content: text });
const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
const texts = (messages) => messages.map((message) => message.content);
const OPTIONS = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };

/** Mounts a page with the hook, and returns a way to wait for what it shows. */
function mount(useStream, apiUrl, more = {}) {
  const seen = { stream: null, waiting: [], threadId: null };
  function Page() {
    const [threadId, setThreadId] = React.useState(more.threadId ?? null);
    seen.threadId = threadId;
    const options = { apiUrl, assistantId: "default", fetchStateHistory: true, reconnectOnMount: () => window.sessionStorage, ...more };
    seen.stream = useStream({ ...options, threadId, onThreadId: setThreadId });
    React.useEffect(() => {
      seen.waiting = seen.waiting.filter(([is, resolve]) => !(is(seen.stream) && (resolve(seen.stream), true)));
    });
    return null;
  }
  const root = createRoot(window.document.getElementById("root"));
  root.render(React.createElement(Page));
  const until = (is) => (seen.stream && is(seen.stream) ? Promise.resolve(seen.stream) : new Promise((resolve) => seen.waiting.push([is, resolve])));
  return { until, seen, close: () => root.unmount() };
}

const rests = (stream) => !stream.isLoading && !stream.isThreadLoading;
const ends = (text) => (stream) => rests(stream) && texts(stream.messages).at(-1) === text;

async function look({ useStream }) {
  const page = mount(useStream, url);
  const said = async (text, is) => {
    const stream = await page.until(rests), message = human(text);
    const optimisticValues = (before) => ({ ...before, messages: [...(before.messages ?? []), message] });
    stream.submit({ messages: [message] }, { ...OPTIONS, optimisticValues });
    return page.until(is);
  };
  const result = {};
  const text = await said("hello", ends("You said hello"));
  result.text = texts(text.messages);
  const checkpoint = (stream, index) => stream.getMessagesMetadata(stream.messages[index]).firstSeenState.parent_checkpoint;
  const counted = await page.until((stream) => stream.messages.length === 2 && checkpoint(stream, 1) !== undefined);
  counted.submit({ messages: [human("another")] }, { ...OPTIONS, checkpoint: checkpoint(counted, 0) });
  const edited = await page.until(ends("You said another"));
  result.edited = texts(edited.messages);
  result.tool = texts((await said("tool", ends("It is 2"))).messages).slice(-3);
  const asked = await said("ask", (stream) => rests(stream) && stream.interrupt?.value !== undefined);
  result.asked = asked.interrupt.value.action_requests.map((request) => request.name);
  asked.submit({}, { ...OPTIONS, command: { resume: { decisions: [{ type: "approve" }] } } });
  result.resumed = texts((await page.until((stream) => ends("It is 2")(stream) && stream.interrupt === undefined)).messages).length;
  // "Mark as resolved": the call is not answered, and the run ends.
  const again = await said("ask", (stream) => rests(stream) && stream.interrupt?.value !== undefined);
  again.submit({}, { command: { goto: "__end__" } });
  result.ended = (await page.until((stream) => rests(stream) && stream.interrupt === undefined)).messages.at(-1).type;
  const failed = await said("fail", (stream) => rests(stream) && stream.error !== undefined);
  result.failed = String(failed.error.message ?? failed.error);
  const waiting = await said("wait", (stream) => texts(stream.messages).includes("wait"));
  const runs = () => waiting.client.runs.list(page.seen.threadId);
  while ((await runs())[0].status !== "running") await pause();
  // The hook learns the name of the run by its first event.
  while (window.sessionStorage.getItem(`lg:stream:${page.seen.threadId}`) === null) await pause();
  waiting.stop();
  await page.until(rests);
  while ((await runs())[0].status === "running") await pause();
  result.stopped = (await runs())[0].status;
  page.close();

  const lost = mount(useStream, relayUrl);
  (await lost.until(rests)).submit({ messages: [human("slow")] }, OPTIONS);
  result.cut = texts((await lost.until(ends("one two"))).messages);
  lost.close();
  return result;
}

console.log(JSON.stringify({ now: await look(hooks.now), earlier: await look(hooks.earlier) }));
process.exit(0);
