// The security audit: what is dangerous here, why, and the command that mends it.

import { html } from "lit";
import "./doctor.js";
import { Page } from "./page.js";

class Security extends Page {
  render() {
    return this.frame(
      "Security",
      html`<p class="hint">Dangerous settings and files, the worst first. The same in a terminal: <code>openclaw security audit --deep</code></p>
        <oc-audit></oc-audit>`,
    );
  }
}
customElements.define("oc-security", Security);
