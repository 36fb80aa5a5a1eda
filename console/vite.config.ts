import { defineConfig } from "vite";

// The server's own process serves the result, so that there is one origin and nothing to allow.
const SERVER = process.env.AVM_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [
    {
      name: "styles-first",
      // The frame is painted when its styles are there, and does not wait for the script.
      transformIndexHtml: {
        order: "post",
        handler: (html) => {
          const script = /\s*<script type="module"[^>]*><\/script>/.exec(html)?.[0] ?? "";
          return html.replace(script, "").replace(/(<link rel="stylesheet"[^>]*>)/, (link) => link + script);
        },
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
