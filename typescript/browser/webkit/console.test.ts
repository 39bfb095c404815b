// The console in WebKit, as Safari has it: let in by the access list, a look at each screen, travel, no breach of the CSP.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { rule } from "../../client/test/support/rules.ts";
import { ConsoleWorld, fillDemo, VIEWS } from "../console_support.ts";
import { WebKit } from "./driver.ts";

const PATIENCE_MS = 30_000;
let world: ConsoleWorld;
let webkit: WebKit;
before(async () => {
  world = await ConsoleWorld.served();
  webkit = await WebKit.open();
});
after(async () => {
  await webkit?.close();
  await world?.close();
});

/** Until the page says it. */
async function says(wanted: string): Promise<void> {
  const said = await webkit.evaluate(async (wanted, patience) => {
    const until = Date.now() + patience;
    for (;;) {
      const shown = document.querySelector("#app")?.textContent ?? "";
      if (shown.includes(wanted) || Date.now() > until) return shown;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }, wanted, PATIENCE_MS);
  assert.ok(said.includes(wanted), `not "${wanted}" but: ${said.slice(0, 400)}`);
}

/** Counts what the CSP refuses from now on; the page is not loaded again. */
const listened = (): Promise<void> => webkit.evaluate(() => {
  const breaches: string[] = ((window as unknown as { breaches: string[] }).breaches = []);
  addEventListener("securitypolicyviolation", (event) => breaches.push(`${event.violatedDirective} ${event.blockedURI}`));
});

rule("CONSOLE-1", "CONSOLE-4", "CONSOLE-7").test("WebKit: each screen, one step in time, nothing that the CSP refuses", async () => {
  const space = await world.space("webkit");
  await fillDemo(world, space, 40);
  await webkit.goto(`${world.origin}/console`);
  await says("This page is");
  const did = await webkit.evaluate(() => document.querySelector(".copyable code")!.textContent!);
  await world.grant(space, did, "write");
  const base = `/console/${space.did}`;
  await webkit.goto(`${world.origin}${base}/entities`);
  await says("All entities");
  await listened();
  for (const [, path, wanted] of VIEWS) {
    await webkit.evaluate((path) => history.pushState(null, "", path), base + path);
    await says(wanted);
  }
  await webkit.evaluate((path) => history.pushState(null, "", path), `${base}/entities?prefix=urn%3Atodo%3A`);
  await says("write the whole spec");
  await webkit.evaluate(() => document.querySelector<HTMLElement>("[aria-label='Previous change']")!.click());
  await says("Nothing can be changed here");
  const seen = await webkit.evaluate(() => ({ at: new URLSearchParams(location.search).get("at"), breaches: (window as unknown as { breaches: string[] }).breaches }));
  assert.match(seen.at!, /^\d+$/);
  assert.deepEqual(seen.breaches, []);
  await webkit.goto(`${world.origin}${base}/entity?id=urn:todo:1&tab=blame`);
  await says("rename on main");
});
