import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Page } from "puppeteer-core";
import { rule } from "../client/test/support/rules.ts";
import { until, World } from "./support.ts";

let world: World;
before(async () => void (world = await World.open()));
after(async () => world?.close()); // undefined where no test was chosen

/** A page with a space; its title counts the watches that are begun. */
async function counting(version: string, name: string): Promise<Page> {
  const page = await world.page(`/react${version}`);
  await page.evaluate(async (url, name) => {
    const db = await window.stemma.connect(url);
    window.space = await db.space(name);
    const watch = window.space.watch.bind(window.space);
    let begun = 0;
    window.space.watch = ((...given: Parameters<typeof watch>) => ((document.title = String((begun += 1))), watch(...given))) as typeof watch;
  }, world.server.url, `${name} ${version}`);
  return page;
}

for (const version of ["18", "19"]) {
  rule("TS-10").test(`React ${version} in StrictMode: inline queries are one watch, nothing tears${version === "19" ? " (quick)" : ""}`, async () => {
    const page = await counting(version, "react");
    await page.evaluate(() => window.renderApp(window.space));
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

  rule("TS-10").test(`React ${version}: a thousand hooks are one watch, and show the same where the data changes while they are rendered`, async () => {
    const page = await counting(version, "cells");
    await page.evaluate(async () => {
      await window.space.transact((tx) => tx.set("urn:cell:1", { title: "old" }));
      window.renderMany(window.space);
    });
    await page.waitForSelector("#many");
    await page.click("#many");
    await until(page, () => document.querySelectorAll("#many td").length === 1_000 && document.querySelector("#many td")!.textContent === "new");
    assert.equal(await page.title(), "1");
    assert.equal(await page.evaluate(() => window.torn), 0);
    await page.close();
  });
}
