// An image of a message that is on record, fetched when it comes into sight.

import { html } from "lit";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];

class Picture extends Element {
  static properties = { sessionKey: {}, messageId: {}, place: { type: Number }, source: { state: true }, problem: { state: true } };
  declare sessionKey: string;
  declare messageId: string;
  declare place: number;
  declare source: string;
  declare problem: string;
  private sight = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && void this.fetch());

  connectedCallback(): void {
    super.connectedCallback();
    this.sight.observe(this);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.sight.disconnect();
  }

  private async fetch(): Promise<void> {
    this.sight.disconnect();
    try {
      const { images } = await gateway.call("chat.images.get", { sessionKey: this.sessionKey, messageId: this.messageId });
      const found: Json = images[this.place];
      if (found && KINDS.includes(found.mimeType)) this.source = `data:${found.mimeType};base64,${found.data}`;
      else this.problem = "an image that is not there any more";
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  render() {
    return this.source ? html`<img src=${this.source} alt="attached image ${this.place + 1}" />` : html`<span class="chip">${this.problem || "image"}</span>`;
  }
}
customElements.define("oc-image", Picture);
