// The base of our elements: they draw into the page itself, so that one style sheet serves all.

import { LitElement } from "lit";
import { gateway, type Json } from "./gateway.js";
import { render } from "./markdown.js";

export class Element extends LitElement {
  private ends: (() => void)[] = [];

  protected createRenderRoot(): HTMLElement {
    return this;
  }

  /** Hears an event of the gateway for as long as the element is on the page. */
  protected hear(name: string, work: (payload: Json) => void): void {
    this.ends.push(gateway.on(name, work));
  }

  protected listenTo(target: EventTarget, name: string, work: (event: any) => void): void {
    target.addEventListener(name, work);
    this.ends.push(() => target.removeEventListener(name, work));
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const end of this.ends.splice(0)) end();
  }
}

/** Markdown that may grow. */
class Markdown extends HTMLElement {
  private shown: string | undefined;
  private planned = 0;

  set text(text: string) {
    if (text === this.shown) return;
    const first = this.shown === undefined;
    this.shown = text;
    if (first) this.replaceChildren(render(text));
    else {
      // While text streams in, drawing once per frame is enough.
      this.planned ||= requestAnimationFrame(() => {
        this.planned = 0;
        this.replaceChildren(render(this.shown ?? ""));
      });
    }
  }
}
customElements.define("oc-markdown", Markdown);
