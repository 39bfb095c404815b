import assert from "node:assert/strict";
import { after, before } from "node:test";
import { rule } from "../client/test/support/rules.ts";
import { until, World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

for (const version of ["18", "19"]) {
  rule("TS-10").test(`React ${version} in StrictMode: inline queries are one watch, nothing tears${version === "19" ? " (quick)" : ""}`, async () => {
    const page = await world.page(`/react${version}`);
    await page.evaluate(async (url, version) => {
      const db = await window.stemma.connect(url);
      window.space = await db.space(`react ${version}`);
      const watch = window.space.watch.bind(window.space);
      let begun = 0;
      window.space.watch = ((...given: Parameters<typeof watch>) => ((document.title = String((begun += 1))), watch(...given))) as typeof watch;
      window.renderApp(window.space);
    }, world.server.url, version);
    assert.ok((await page.evaluate(() => window.reactVersion)).startsWith(version));
    await until(page, () => document.querySelector("#list")?.getAttribute("data-state") === "live");
    assert.equal(await page.title(), "1", "four queries of two renders are one watch");
    for (let clicks = 1; clicks <= 5; clicks += 1) {
      await page.click("#add");
      await page.waitForFunction((clicks) => document.querySelectorAll("#list li").length === clicks, {}, clicks);
    }
    await until(page, () => document.querySelector("#pending")!.textContent === "0");
    assert.deepEqual(await page.$$eval("#list li", (rows) => rows.map((row) => row.textContent)), ["todo 0", "todo 1", "todo 2", "todo 3", "todo 4"]);
    assert.equal(await page.evaluate(() => window.torn), 0);
    await page.close();
  });
}
