export const en = {};

export type PeopleWords = typeof en;
