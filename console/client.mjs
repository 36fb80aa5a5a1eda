/** Builds clients/typescript into a package that `npm pack` packs: one module, and its types. */

import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { isolatedDeclarationSync } from "rolldown/experimental";

const home = new URL("../clients/typescript/", import.meta.url);
const dist = new URL("dist/", home);

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
const bundle = await rolldown({ input: fileURLToPath(new URL("src/index.ts", home)) });
await bundle.write({ dir: fileURLToPath(dist), entryFileNames: "index.js" });
for (const name of readdirSync(new URL("src/", home))) {
  const { code, errors } = isolatedDeclarationSync(name, readFileSync(new URL(`src/${name}`, home), "utf8"));
  if (errors.length > 0) throw new Error(`${name}: ${errors[0].message}`);
  writeFileSync(new URL(name.replace(/\.ts$/, ".d.ts"), dist), code.replace(/"(\.\/\w+)\.ts"/g, '"$1.js"'));
}
copyFileSync(new URL("../LICENSE", import.meta.url), new URL("LICENSE", home));
