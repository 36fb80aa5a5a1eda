import { wing } from "../wing.ts";
import { en } from "./en.ts";

export const peopleWords = await wing(en, () => import("./zh.ts"));
