// A Chromium, a page server and a real StemmaDB server for browser tests.
import { build, type Plugin } from "esbuild";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import puppeteer, { type Browser, type BrowserContext, type Page } from "puppeteer-core";
import { Server } from "../client/test/support/server.ts";
import { PAGE, script as exampleScript } from "../example/serve.ts";

const HERE = dirname(fileURLToPath(import.meta.url));

async function bundled(entry: string, plugins: Plugin[] = []): Promise<string> {
  const made = await build({ entryPoints: [resolve(HERE, entry)], bundle: true, write: false, format: "iife", conditions: ["stemmadb-source"], define: { "process.env.NODE_ENV": '"development"' }, plugins });
  return made.outputFiles[0]!.text;
}

/** Takes React 18, which is installed beside React 19. */
const react18: Plugin = {
  name: "react18",
  setup(setup) {
    setup.onResolve({ filter: /^(react|react-dom|scheduler)(\/.*)?$/ }, (given) => {
      if (given.pluginData === "done") return undefined;
      return setup.resolve(given.path, { kind: given.kind, resolveDir: join(HERE, "../react18"), pluginData: "done" });
    });
  },
};

export const FIREFOX = process.env["STEMMADB_ENGINE"] === "firefox";

/** The browser that is tested: a Chromium, or the Firefox of STEMMADB_FIREFOX where STEMMADB_ENGINE names it. */
export function launched(profile: string, ...args: string[]): Promise<Browser> {
  if (FIREFOX) return puppeteer.launch({ browser: "firefox", executablePath: process.env["STEMMADB_FIREFOX"] ?? "/usr/bin/firefox", userDataDir: profile, headless: true });
  return puppeteer.launch({
    executablePath: process.env["STEMMADB_BROWSER"] ?? "/usr/bin/chromium", userDataDir: profile, headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", ...args],
  });
}

/** A page server and a StemmaDB server that lets its pages in. */
export class Site {
  readonly server: Server;
  readonly origin: string;
  private readonly pages: HttpServer;

  protected constructor(server: Server, pages: HttpServer, origin: string) {
    this.server = server;
    this.pages = pages;
    this.origin = origin;
  }

  /** `more`: scripts by their path, each an entry in this repository. */
  static async open(more: { [path: string]: string } = {}): Promise<Site> {
    const files: { [path: string]: string } = {
      "/page.js": await bundled("page.ts"), "/react19.js": await bundled("react_page.ts"), "/react18.js": await bundled("react_page.ts", [react18]),
      "/app.js": await exampleScript(),
    };
    for (const [path, entry] of Object.entries(more)) files[path] = await bundled(entry);
    const pages = createServer((request, response) => {
      const { pathname } = new URL(request.url!, "http://x");
      const script = files[pathname];
      response.setHeader("Content-Type", script === undefined ? "text/html" : "text/javascript");
      response.end(script ?? (pathname === "/example" ? PAGE : undefined) ?? `<!doctype html><title>test</title><body><script src="${pathname === "/" ? "/page" : pathname}.js"></script>`);
    });
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(pages.address() as { port: number }).port}`;
    return new this(await Server.start("--origins", origin), pages, origin);
  }

  async close(): Promise<void> {
    this.pages.close();
    await this.server.close();
  }
}

/** A site and a browser. */
export class World extends Site {
  browser!: Browser;
  private readonly profile = mkdtempSync(join(tmpdir(), "stemmadb-browser-"));

  static override async open(more: { [path: string]: string } = {}): Promise<World> {
    const world = (await super.open(more)) as World;
    await world.launch();
    return world;
  }

  async launch(): Promise<void> {
    this.browser = await launched(this.profile);
  }

  /** The browser is killed, as by a power failure of the app; `launch` starts it again with the same profile. */
  async kill(): Promise<void> {
    const child = this.browser.process()!;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    rmSync(join(this.profile, "SingletonLock"), { force: true });
  }

  /** A new tab on the test page. */
  async page(path = "/", from: Browser | BrowserContext = this.browser): Promise<Page> {
    const page = await from.newPage();
    await page.goto(this.origin + path);
    return page;
  }

  /** A tab with the space open as `window.space` and `urn:todo:*` watched as `window.watch`. */
  async tab(name: string): Promise<Page> {
    const page = await this.page();
    await this.enter(page, name);
    return page;
  }

  async enter(page: Page, name: string): Promise<void> {
    await page.evaluate(async (url, name) => {
      const db = await window.stemma.connect(url, { journal: true, settings: { mostPauseMs: 300 } });
      window.space = await db.space(name);
      window.watch = window.space.watch("urn:todo:*");
    }, this.server.url, name);
  }

  override async close(): Promise<void> {
    await this.browser.close().catch(() => undefined);
    await super.close();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

export async function until(page: Page, holds: () => boolean): Promise<void> {
  await page.waitForFunction(holds, { timeout: 20_000, polling: 50 });
}
