/** The questions of a tool as fields of a form, and what was entered as the content that the server expects. */

import type { Question } from "../link/client.ts";

export interface Field {
  name: string;
  title: string;
  about: string | undefined;
  kind: "one" | "several" | "yes" | "text";
  /** The values with the names that are shown for them. */
  options: readonly (readonly [value: string, title: string])[];
  /** Besides the options something else may be written. */
  hasOther: boolean;
  type: "text" | "number" | "email" | "url" | "date";
  step: "any" | "1" | undefined;
  maxLength: number;
  isRequired: boolean;
  initial: readonly string[];
}

interface Schema {
  type?: string;
  title?: string;
  description?: string;
  format?: string;
  maxLength?: number;
  const?: unknown;
  default?: unknown;
  enum?: unknown[];
  enumNames?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

const FORMATS: Readonly<Record<string, Field["type"]>> = { email: "email", uri: "url", date: "date" };
/** Texts that may be longer are written in several lines. */
const LINE_MAX = 200;

/** The fields of a question; none of a page that has to be visited. */
export function fieldsOf(question: Question): Field[] {
  const { properties = {}, required = [] } = (question.schema ?? {}) as Schema;
  return question.mode === "url" ? [] : Object.entries(properties).map(([name, schema]) => fieldOf(name, schema, required.includes(name)));
}

function fieldOf(name: string, schema: Schema, isRequired: boolean): Field {
  const chosen = schema.type === "array" ? (schema.items ?? {}) : schema;
  const options = optionsOf(chosen);
  const isNumber = schema.type === "number" || schema.type === "integer";
  return {
    name,
    title: schema.title ?? name,
    about: schema.description,
    kind: schema.type === "array" ? "several" : options.length > 0 ? "one" : schema.type === "boolean" ? "yes" : "text",
    options,
    hasOther: (chosen.anyOf ?? []).some((one) => one.type === "string" && one.enum === undefined && one.const === undefined),
    type: isNumber ? "number" : (FORMATS[schema.format ?? ""] ?? "text"),
    step: isNumber ? (schema.type === "integer" ? "1" : "any") : undefined,
    maxLength: schema.maxLength ?? Infinity,
    isRequired,
    initial: initialOf(schema.default),
  };
}

const initialOf = (value: unknown): string[] => (value === undefined || value === null || value === false ? [] : [value].flat().map(String));

function optionsOf(schema: Schema): [string, string][] {
  const choices = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  const named = choices.filter((one) => one.const !== undefined).map((one): [string, string] => [String(one.const), one.title ?? String(one.const)]);
  if (named.length > 0) return named;
  const { enum: values = [], enumNames = [] } = [schema, ...choices].find((one) => one.enum !== undefined) ?? {};
  return values.map((value, index) => [String(value), enumNames[index] ?? String(value)]);
}

/** What a message means as the answer to a question with one field; undefined if it is none, and a message of its own. */
export function answerIn(questions: Readonly<Record<string, Question>>, text: string): Record<string, unknown> | undefined {
  const [[key, question] = [], ...others] = Object.entries(questions);
  const [field, ...more] = question === undefined ? [] : fieldsOf(question);
  if (key === undefined || field === undefined || others.length > 0 || more.length > 0) return undefined;
  const said = text.trim().toLowerCase();
  const [option] = field.options.find(([value, title]) => value.toLowerCase() === said || title.toLowerCase() === said) ?? [];
  if (field.kind === "yes" || field.type === "number" || (field.options.length > 0 && option === undefined && !field.hasOther)) return undefined;
  const value = option ?? text.trim();
  return { [key]: { [field.name]: field.kind === "several" ? [value] : value } };
}

/** Whether a text has room for several lines. */
export const isLong = (field: Field) => field.type === "text" && field.maxLength > LINE_MAX && field.isRequired;

/** The content of a question; what was left empty is left out. */
export function contentOf(key: string, fields: readonly Field[], data: Pick<FormData, "get" | "getAll">): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const field of fields) {
    const value = valueOf(field, `${key}.${field.name}`, data);
    if (value !== undefined) content[field.name] = value;
  }
  return content;
}

function valueOf(field: Field, name: string, data: Pick<FormData, "get" | "getAll">): unknown {
  const text = String(data.get(name) ?? "").trim();
  const other = String(data.get(`${name}.other`) ?? "").trim();
  switch (field.kind) {
    case "yes":
      return data.get(name) !== null;
    case "several":
      return [...data.getAll(name).map(String), ...(other === "" ? [] : [other])];
    case "one":
      return other || text || undefined;
    case "text":
      return text === "" ? undefined : field.type === "number" ? Number(text) : text;
  }
}
