/** Schema — the tables of an object, and how those of earlier Workers become them. */

/** Keys of one session: the key of a turn is the number of its session times this, plus its own number. */
export const TURNS_MAX = 2 ** 24;
/** The number of the session of a turn, in SQL. */
export const SESSION_OF_TURN = `turns.id / ${TURNS_MAX}`;

const TABLES = [
  "CREATE TABLE IF NOT EXISTS containers (name TEXT PRIMARY KEY, object TEXT NOT NULL, created_at INTEGER NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS images (number INTEGER PRIMARY KEY, image_id TEXT NOT NULL, session_id TEXT NOT NULL, agent_id TEXT, body TEXT NOT NULL)",
  // With a rowid: a row of a table without one that has more than a kilobyte takes a page of 4 KB of its own. Two usual turns share one.
  `CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, turn_id TEXT NOT NULL, state TEXT NOT NULL, runner TEXT NOT NULL, attempt INTEGER NOT NULL, accepted_at INTEGER NOT NULL, client_key TEXT, first_seq INTEGER NOT NULL,
     last_seq INTEGER NOT NULL, waits TEXT NOT NULL, entry TEXT NOT NULL, user TEXT NOT NULL, body BLOB)`,
  // Entries whose turns are gone.
  "CREATE TABLE IF NOT EXISTS ledger (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID",
  // Entries that the server does not take.
  "CREATE TABLE IF NOT EXISTS refused (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID",
];

/** Rows of the layout before this one, in which turns and images had their ids as keys. */
const MOVES = [
  "INSERT INTO images (image_id, session_id, agent_id, body) SELECT image_id, session_id, agent_id, body FROM images_before",
  `INSERT INTO turns SELECT images.number * ${TURNS_MAX} + n, turn_id, state, runner, attempt, accepted_at, client_key,
     first_seq, last_seq, waits, entry, user, turns_before.body FROM turns_before JOIN images ON images.session_id = turns_before.session_id`,
  "DROP TABLE images_before",
  "DROP TABLE turns_before",
];

/** Makes the tables if they are needed, or if an earlier Worker has made others; returns whether there are any. */
export function prepare(sql: SqlStorage, isNeeded: boolean): boolean {
  const found = sql.exec<{ name: string; sql: string }>("SELECT name, sql FROM sqlite_master WHERE name IN ('turns', 'refused')").toArray();
  const isEarlier = found.some(({ name, sql: text }) => name === "turns" && text.includes("WITHOUT ROWID"));
  if (isEarlier) for (const name of ["images", "turns"]) sql.exec(`ALTER TABLE ${name} RENAME TO ${name}_before`);
  if (isNeeded || found.length === 1 || isEarlier) for (const table of TABLES) sql.exec(table);
  if (isEarlier) for (const move of MOVES) sql.exec(move);
  return isNeeded || found.length > 0;
}
