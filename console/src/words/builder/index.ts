import { wing } from "../wing.ts";
import { en } from "./en.ts";

export const builderWords = await wing(en, () => import("./zh.ts"));
