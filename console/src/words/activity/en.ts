export const en = {};

export type ActivityWords = typeof en;
