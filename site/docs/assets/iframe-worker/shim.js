// Search on pages from the file system, where a browser loads no worker: an iframe of the page runs the worker's script.
// A rewrite of iframe-worker by Martin Donath (see LICENSE.txt) without an inline script, which the policy of a page would not run.
"use strict";
(() => {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.iframe = document.body.appendChild(Object.assign(document.createElement("iframe"), { hidden: true }));
      const inside = this.iframe.contentWindow;
      const load = (address) => new Promise((done, failed) => {
        const script = Object.assign(inside.document.createElement("script"), { src: address, onload: done, onerror: failed });
        inside.document.body.append(script);
      });
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      inside.importScripts = (...addresses) => addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
      this.ready = load(url);
      this.ready.catch((event) => { if (this.onerror) this.onerror(event); });
    }
    postMessage(data) {
      const inside = this.iframe.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }
    terminate() { this.iframe.remove(); }
  }
  window.IFrameWorker = IFrameWorker;
  if (location.protocol === "file:") window.Worker = IFrameWorker;
})();
