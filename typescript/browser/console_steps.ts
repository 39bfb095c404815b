// Steps of a user in the console.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "puppeteer-core";

const AXE = readFileSync(fileURLToPath(new URL("../node_modules/axe-core/axe.min.js", import.meta.url)), "utf8");
const WAIT = { timeout: 20_000, polling: 50 };

/** Waits until the page shows a text, or an attribute of something there has it. */
export async function says(page: Page, wanted: string, attribute?: string): Promise<void> {
  const holds = (wanted: string, attribute: string | undefined): boolean =>
    attribute === undefined ? (document.querySelector("#app")?.textContent ?? "").includes(wanted) : [...document.querySelectorAll(`[${attribute}]`)].some((one) => one.getAttribute(attribute)!.includes(wanted));
  await page.waitForFunction(holds, WAIT, wanted, attribute).catch(async (error: unknown) => {
    throw new Error(`The page does not say "${wanted}" but: ${(await text(page, "#app")).slice(0, 600)}`, { cause: error });
  });
}

export function text(page: Page, selector: string): Promise<string> {
  return page.$eval(selector, (element) => element.textContent!);
}

/** Clicks the first that holds a text. */
export async function click(page: Page, selector: string, wanted: string): Promise<void> {
  for (const one of await page.$$(selector)) {
    if (!(await one.evaluate((element, wanted) => element.textContent!.includes(wanted), wanted))) continue;
    await one.evaluate((element) => element.scrollIntoView({ block: "center" }));
    return one.click();
  }
  throw new Error(`There is no ${selector} with "${wanted}"`);
}

/** A key, when nothing is typed in. */
export async function press(page: Page, key: string): Promise<void> {
  await page.keyboard.press(key as "j");
}

export interface ShownRow {
  readonly id: string;
  readonly version: number;
  readonly cells: readonly string[];
}

/** All rows of the table of entities, also those that are out of sight. */
export async function shownRows(page: Page): Promise<ShownRow[]> {
  const found = new Map<string, ShownRow>();
  for (let at = 0; ; at += 400) {
    const isEnd = await page.$eval(".rows", (box, at) => ((box.scrollTop = at), at >= box.scrollHeight - box.clientHeight), at);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    const rows = await page.$$eval(".rows-body .row", (all) => all.map((row) => {
      const [id, version, ...cells] = [...row.querySelectorAll("[role=cell]")].map((cell) => cell.textContent!);
      return { id: id!, version: Number((version ?? "").replace(/[◆,\s]/g, "")), cells };
    }));
    for (const row of rows) found.set(row.id, row);
    if (isEnd) return [...found.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }
}

interface Axe {
  run(root: Document, options: object): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
}

/** What axe-core finds against WCAG 2.2 AA and good practice. It runs outside of the page's CSP. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const found = await (globalThis as unknown as { axe: Axe }).axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return found.violations.flatMap((one) => one.nodes.slice(0, 3).map((node) => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary.replaceAll("\n", " ").slice(0, 200)}`));
  });
}
