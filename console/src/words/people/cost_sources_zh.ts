/** Where the numbers of an estimate are from, in Chinese: the parts of each source, between commas and semicolons. */

const PARTS: Record<string, string> = {
  "upper end of the list prices of small shared servers at European hosts": "欧洲主机商小型共享服务器标价的上限",
  "twice the smaller server": "小一号服务器的两倍",
  "four times the smallest server": "最小服务器的四倍",
  "replace it by your host's list price": "请换成你的主机商的标价",
  "block storage at the same hosts": "同类主机商的块存储",
  "list price of object storage without charges for traffic (R2)": "不收流量费的对象存储（R2）标价",
  "traffic beyond what the server includes": "服务器自带之外的流量",
  "at the same hosts": "同类主机商",
  "public price page": "公开价格页",
  "128 MB for an hour at $12.50 a million GB-s": "128 MB 用一小时，每百万 GB-s $12.50",
  "list price of the paid plan of Cloudflare Workers": "Cloudflare Workers 付费套餐标价",
  "$0.30 a million after 10 million": "超出 1000 万后每百万 $0.30",
  "$0.02 a million ms after 30 million": "超出 3000 万后每百万毫秒 $0.02",
  "waiting is not charged": "等待不计费",
  "$0.15 a million after 1 million": "超出 100 万后每百万 $0.15",
  "$12.50 a million GB-s of 128 MB while awake": "唤醒期间按 128 MB 计，每百万 GB-s $12.50",
  "$0.50 a million reads after 10 million": "超出 1000 万后每百万次读取 $0.50",
  "SQLite in Durable Objects": "Durable Objects 中的 SQLite",
  "$1 a million rows written after 50 million": "超出 5000 万后每百万写入行 $1",
  "$0.001 a million rows read after 25 billion": "超出 250 亿后每百万读取行 $0.001",
  "$0.20 a GB after 5": "超出 5 GB 后每 GB $0.20",
  "an empty SQLite database of a Durable Object": "Durable Object 的空 SQLite 数据库",
  "documentation of the platform": "平台文档",
  "a sandbox with one vCPU at another platform": "另一平台上一个 vCPU 的沙箱",
  "50 clients": "50 个客户端",
  "at 0 deltas": "按 0 个分段",
  paced: "限速",
  "100 deltas a turn": "每轮 100 个分段",
  "100 deltas": "100 个分段",
  "1000 users": "1000 个用户",
  "Python in a jail": "沙箱中的 Python",
  "after the start": "启动之后",
  "500 users": "500 个用户",
  "500 waiting turns": "500 个等待中的轮次",
  "2000 agents after a turn": "各完成一轮的 2000 个智能体",
  "20 at once": "20 个同时进行",
  "20000 containers": "20000 个容器",
  "at no text": "按没有文本",
  "slope of short to long answers": "从短回答到长回答的斜率",
  "one turn after the other": "轮次逐个进行",
  "avm backup of the turns of bench.disk with long answers": "对 bench.disk 长回答轮次的 avm backup",
  "frame of a delta of 13 bytes": "13 字节分段的帧",
  "the upgrade": "升级请求",
  "frames are not requests": "帧不算请求",
  "log of the objects": "对象的日志",
  "100 turns of 100 deltas": "100 轮，每轮 100 个分段",
  "in one container with 40 sessions": "在有 40 个对话的一个容器中",
  "20 turns with a server that books their calls": "20 轮，由服务器记账",
  "in a container that holds 90": "在有 90 轮的容器中",
  "at most: edge/src/key_watch.ts looks a key up once a minute while something is said or heard": "上限：有收发时 edge/src/key_watch.ts 每分钟查询一次密钥",
  "slope of 10 to 100 deltas": "从 10 到 100 个分段的斜率",
  "40 turns of 100 paced deltas": "40 轮，每轮 100 个限速的分段",
  "private and shared memory of PostgreSQL 18 after it": "此后 PostgreSQL 18 的私有与共享内存",
  "the same turns copied by avm database copy": "用 avm database copy 复制的相同轮次",
};
const DATED = /^November (\d{4})(?: \((\d+) to (\d+) euros\))?$/u;
const NAMES = /^(?:bench\.\w+(?: --engine postgres)?|Workers|Workers KV|Durable Objects)$/u;

function part(text: string): string | undefined {
  const [, year, least, most] = DATED.exec(text) ?? [];
  if (year !== undefined) return `${year} 年 11 月${least === undefined ? "" : `（${least} 至 ${most} 欧元）`}`;
  return NAMES.test(text) ? text : PARTS[text];
}

/** The source in Chinese; undefined where a part is not known, as in prices of the operator. */
export function sourceOf(text: string): string | undefined {
  const parts = text.split(/, |; /u).map(part);
  return parts.includes(undefined) ? undefined : parts.join("，");
}
