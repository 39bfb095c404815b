// What wouter takes from a package for older versions of React: ours has it.
export { useSyncExternalStore } from "react";
