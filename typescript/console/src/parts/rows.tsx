// A list of many rows of which only those in sight are in the page.
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactElement, type ReactNode, useRef } from "react";

interface RowsProps<T> {
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  readonly height: number;
  readonly label: string;
  readonly role?: "grid" | "list";
  readonly columns?: number;
  readonly head?: ReactNode;
  readonly foot?: ReactNode;
  readonly row: (item: T, index: number) => { readonly className?: string; readonly onOpen?: () => void; readonly content: ReactNode; readonly isChosen?: boolean };
}

export function Rows<T>({ items, keyOf, height, label, role = "list", columns, head, foot, row }: RowsProps<T>): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: items.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12, getItemKey: (index) => keyOf(items[index]!) });
  const isGrid = role === "grid";
  return (
    <div className="rows" ref={box} tabIndex={0} role="group" aria-label={label}>
      <div role={isGrid ? "table" : undefined} aria-label={isGrid ? label : undefined} aria-rowcount={isGrid ? items.length + 1 : undefined} aria-colcount={isGrid ? columns : undefined}>
        {head !== undefined && <div className="rows-head" role="rowgroup">{head}</div>}
        <div className="rows-body" role={isGrid ? "rowgroup" : "list"} style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map((at) => {
            const item = items[at.index];
            if (item === undefined) return null;
            const { className, onOpen, content, isChosen } = row(item, at.index);
            return (
              <div key={at.key} className={`row ${className ?? ""} ${isChosen ? "chosen" : ""}`} style={{ height: `${height}px`, transform: `translateY(${at.start}px)` }} role={isGrid ? "row" : "listitem"}
                aria-rowindex={isGrid ? at.index + 2 : undefined} data-row="" tabIndex={-1} aria-current={isChosen ? "true" : undefined}
                onKeyDown={(event) => event.key === "Enter" && event.target === event.currentTarget && onOpen?.()}>
                {content}
              </div>
            );
          })}
        </div>
      </div>
      {foot}
    </div>
  );
}
