import { wing } from "../wing.ts";
import { en } from "./en.ts";

export const activityWords = await wing(en, () => import("./zh.ts"));
