/** The colours of code: a tree of pieces, never HTML. */

import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

export type Coloured = string | { kind: string; parts: Coloured[] };

const lowlight = createLowlight({ bash, cpp, css, go, java, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({ typescript: ["js", "javascript", "jsx", "ts", "tsx"], bash: ["sh", "shell", "console"], cpp: ["c", "h"], xml: ["html", "svg"] });

/** The pieces of a text; undefined for a language that is not known. */
export function colour(text: string, language: string): Coloured[] | undefined {
  const name = language.trim().split(/\s/)[0]?.toLowerCase() ?? "";
  return lowlight.registered(name) ? lowlight.highlight(name, text).children.map(simple) : undefined;
}

type Node = ReturnType<typeof lowlight.highlight>["children"][number];

function simple(node: Node): Coloured {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return "";
  const classes = node.properties["className"];
  return { kind: Array.isArray(classes) ? classes.join(" ") : "", parts: node.children.map((child) => simple(child as Node)) };
}
