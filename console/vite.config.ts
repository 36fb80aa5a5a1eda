import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vite";

// The server's own process serves the result, so that there is one origin and nothing to allow.
const SERVER = process.env.AVM_URL ?? "http://127.0.0.1:8080";

const PACKAGE = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;

/** What the licenses of the packages in the build ask for: their names and texts beside it. */
function licensesOf(modules: readonly string[]): string {
  const folders = new Set(modules.map((id) => PACKAGE.exec(id)?.[0]).filter((folder) => folder !== undefined));
  return [...folders].toSorted().map(licenseOf).join("\n\n");
}

function licenseOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as Record<string, string>;
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) throw new Error(`${name} has no license file`);
  return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
}

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [
    {
      name: "frame-first",
      // A stylesheet in the head holds back the first paint. One for printing does not: it is fetched at once, and the script applies it.
      transformIndexHtml: { order: "post", handler: (html) => html.replace('<link rel="stylesheet"', '<link rel="stylesheet" media="print" fetchpriority="high"') },
    },
    {
      name: "licenses",
      generateBundle(_options, bundle) {
        const modules = Object.values(bundle).flatMap((chunk) => (chunk.type === "chunk" ? chunk.moduleIds : []));
        this.emitFile({ type: "asset", fileName: "licenses.txt", source: licensesOf(modules) });
      },
    },
  ],
  build: {
    outDir: "../src/agentvm/server/_console",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      input: { index: "index.html", sw: "src/worker/sw.ts" },
      output: {
        entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
        // What the first page needs is one file, although pages that come later share parts of it.
        codeSplitting: { groups: [{ name: "frame", test: /console\/src\/main\.tsx$/ }] },
      },
    },
  },
  server: {
    port: 5173,
    proxy: { "/v1": SERVER, "/health": SERVER, "/ws": { target: SERVER, ws: true } },
  },
});
