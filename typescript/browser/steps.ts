// Steps that browser tests share, on the space that a tab has open.
import type { Page } from "puppeteer-core";

/** Writes a todo, and waits until the journal has it. */
export async function write(page: Page, id: string, title: string): Promise<void> {
  await page.evaluate(async (id, title) => {
    window.tx = await window.space.transaction((tx) => tx.set(id, { title }, { blind: true }));
    await window.tx.journaled();
  }, id, title);
}

export const pending = (page: Page): Promise<number> => page.evaluate(() => window.space.pending().length);
export const settled = (page: Page): Promise<void> => page.evaluate(() => window.space.settled());

/** How many commits of the log wrote this id. */
export function commits(page: Page, id: string): Promise<number> {
  return page.evaluate(async (id) => {
    let found = 0;
    for await (const entry of window.space.log({ prefix: id })) found += entry.kind === "merge" ? 0 : 1;
    return found;
  }, id);
}
