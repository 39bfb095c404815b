// The icons, drawn by hand on a grid of 16.
import type { ReactElement } from "react";

const PATHS = {
  entities: "M2.5 3.5h11M2.5 8h11M2.5 12.5h11M6 3.5v9",
  commits: "M8 1.5v4M8 10.5v4M10.5 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0Z",
  branches: "M4.5 5v6M4.5 5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 6a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3Zm7-5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 0c0 3-4 2.5-6.2 4.6",
  diff: "M8 2.5v5M5.5 5h5M5.5 12.5h5",
  live: "M1.5 8h3l2-5 3 10 2-5h3",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.7 3.7",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13.5 9.8A5.8 5.8 0 0 1 6.2 2.5a5.8 5.8 0 1 0 7.3 7.3Z",
  help: "M6 6a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.5M8 12v.2M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  prev: "M10 3 5 8l5 5", next: "m6 3 5 5-5 5", head: "m3 3 5 5-5 5M12.5 3v10",
  down: "m4 6 4 4 4-4", right: "m6 4 4 4-4 4",
  close: "m4 4 8 8M12 4l-8 8", check: "m3 8.5 3.5 3.5L13 5", clock: "M8 4.5V8l2.5 1.5M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5", cloud: "m2 2 12 12M5 12h6.5M4.6 6.6A2.8 2.8 0 0 0 5 12M7 4.2A3.6 3.6 0 0 1 11.5 7 2.6 2.6 0 0 1 13.6 10.8",
  erased: "m6 13.5-3.5-3.5 7-7L14 7.5l-6 6zM6 6.5 10.5 11M5.5 13.5H14", empty: "M2.5 9.5 4 3.5h8l1.5 6v3h-11zM2.5 9.5H6l.8 1.5h2.4l.8-1.5h3.5",
  merge: "M4.5 5v6M4.5 5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 6a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3Zm7 0a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm-7-6c0 3 2.5 4.5 5.5 4.5",
  undo: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H6", tag: "M2.5 2.5h5l6 6-5 5-6-6zM5.2 5.2v.1", pause: "M5.5 3v10M10.5 3v10", play: "M4.5 3v10l8-5z",
  edit: "m3 13 .7-3L10.5 3.2l2.3 2.3L6 12.3z",
} as const;
export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactElement {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The mark of StemmaDB: a stem with two branches. */
export function Mark(): ReactElement {
  return (
    <svg className="mark" width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
      <rect width="22" height="22" rx="6" className="mark-ground" />
      <path d="M8 17V5M8 13.5c0-3 6-2.2 6-6.5" fill="none" className="mark-line" strokeWidth="1.8" strokeLinecap="round" />
      <circle cx="8" cy="5.2" r="2" className="mark-dot" /><circle cx="14" cy="6.6" r="2" className="mark-dot" /><circle cx="8" cy="16.8" r="2" className="mark-dot" />
    </svg>
  );
}
