// Where versions stand on the axis of the timeline. Pure.
import type { Bucket } from "../data/questions.ts";

/** From 0 to 1, by version or by time. */
export class Axis {
  private readonly buckets: readonly Bucket[];
  private readonly byTime: boolean;
  private readonly last: number;
  private readonly from: number;
  private readonly to: number;

  constructor(buckets: readonly Bucket[], byTime: boolean, head: number) {
    this.byTime = byTime && buckets.length > 0;
    this.buckets = buckets;
    this.last = Math.max(1, head);
    this.from = buckets[0]?.from_time ?? 0;
    this.to = Math.max(this.from + 1, buckets.at(-1)?.to_time ?? 1);
  }

  place(version: number): number {
    if (!this.byTime) return this.last === 1 ? 1 : clamp((version - 1) / (this.last - 1));
    const bucket = this.buckets.findLast((one) => one.from_version <= version);
    if (bucket === undefined) return 0;
    const within = bucket.to_version > bucket.from_version ? clamp((version - bucket.from_version) / (bucket.to_version - bucket.from_version)) : 1;
    return clamp((bucket.from_time + within * (bucket.to_time - bucket.from_time) - this.from) / (this.to - this.from));
  }

  version(place: number): number {
    if (!this.byTime) return Math.round(1 + clamp(place) * (this.last - 1));
    const time = this.from + clamp(place) * (this.to - this.from);
    const bucket = this.buckets.findLast((one) => one.from_time <= time) ?? this.buckets[0]!;
    const within = bucket.to_time > bucket.from_time ? clamp((time - bucket.from_time) / (bucket.to_time - bucket.from_time)) : 1;
    return Math.round(bucket.from_version + within * (bucket.to_version - bucket.from_version));
  }

  bar(bucket: Bucket): { from: number; to: number } {
    if (!this.byTime) return { from: clamp((bucket.from_version - 1) / this.last), to: clamp(bucket.to_version / this.last) };
    const width = this.to - this.from;
    return { from: clamp((bucket.from_time - this.from) / width), to: clamp((bucket.to_time - this.from) / width) };
  }
}

function clamp(place: number): number {
  return Math.min(1, Math.max(0, place));
}
