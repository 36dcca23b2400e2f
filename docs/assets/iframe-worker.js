/*
 * Search in a page that was opened from a file.
 *
 * Browsers start no workers from file:// pages. Here a Worker is a hidden frame that runs the same script: what the
 * page posts arrives there as a "message" event, and what the script posts comes back as one. Elsewhere nothing changes.
 */
(function () {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      // What a script finds in a worker: a way to post, and a way to load further scripts before it goes on.
      inside.postMessage = (data) => this.deliver(data);
      inside.importScripts = (...urls) => Promise.all(urls.map((next) => load(inside, next)));
      load(inside, url).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (!this.ready) {
        this.waiting.push(data);
        return;
      }
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  function load(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = resolve;
      script.onerror = reject;
      inside.document.documentElement.appendChild(script);
    });
  }

  window.Worker = FrameWorker;
})();
