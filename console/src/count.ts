/** Counts the work of the page for a test: components drawn, and those of them outside the answer that is being written. */

import { options } from "preact";
import { Growing } from "./markdown/blocks.ts";

interface Drawn {
  props?: { item?: { live?: boolean } } | null;
  /** The parent. */
  __?: Drawn;
}

const hooks = options as unknown as { __r?: (drawn: Drawn) => void };
const before = hooks.__r;
const counted = { drawn: 0, outside: 0, lexed: () => Growing.total };

hooks.__r = (drawn) => {
  counted.drawn += 1;
  let place: Drawn | undefined = drawn;
  while (place !== undefined && place !== null && place.props?.item?.live !== true) place = place.__;
  if (!place) counted.outside += 1;
  before?.(drawn);
};

Object.assign(window, { avmCounted: counted });
