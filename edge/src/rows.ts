/** Rows — the queries of an object, and how many rows they have written and read: both are billed. */

import { prepare } from "./schema.ts";

export class Rows {
  #sql: SqlStorage;
  #made: boolean;
  written = 0;
  read = 0;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#made = prepare(sql, false);
  }

  all<Row>(query: string, ...values: unknown[]): Row[] {
    return [...this.each<Row>(query, ...values)];
  }

  /** One row after the other: what nobody asks for is not read. */
  *each<Row>(query: string, ...values: unknown[]): Generator<Row> {
    if (!this.#made) return;
    const cursor = this.#sql.exec<Row>(query, ...values);
    try {
      yield* cursor;
    } finally {
      this.read += cursor.rowsRead;
    }
  }

  /** Returns how many rows it has written. */
  change(query: string, ...values: unknown[]): number {
    if (!this.#made) this.#made = prepare(this.#sql, true);
    const cursor = this.#sql.exec(query, ...values);
    cursor.toArray();
    this.written += cursor.rowsWritten;
    this.read += cursor.rowsRead;
    return cursor.rowsWritten;
  }
}
