// A component that is drawn again only when one of its props is another value.
import { Component, h, type ComponentChild, type FunctionComponent } from "preact";

export function memo<P extends object>(draw: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
      for (const key of keys) if (!Object.is(before[key], after[key])) return true;
      return false;
    }
    override render(props: P): ComponentChild {
      const Draw = draw as FunctionComponent<object>;
      return h(Draw, props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
