// Keeps the sliders on the simplex: the one that was moved stays, the others share what is left as they did.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  viewer: {
    balance: function (values, previous) {
      const held = window.dash_clientside.no_update;
      const context = window.dash_clientside.callback_context;
      const numbers = values.map(Number);
      const close = (a, b) => Math.abs(a - b) < 0.0006;
      if (!numbers.length || !context.triggered.length) return [values.map(() => held), held];
      let moved = -1;
      numbers.forEach((value, i) => { if (previous && !close(value, previous[i])) moved = moved < 0 ? i : moved; });
      if (moved < 0) return [values.map(() => held), held];
      const share = Math.min(1, Math.max(0, numbers[moved]));
      const others = previous.reduce((sum, value, i) => (i === moved ? sum : sum + value), 0);
      const next = previous.map((value, i) => {
        if (i === moved) return share;
        return others > 1e-9 ? (value * (1 - share)) / others : (1 - share) / (numbers.length - 1);
      });
      return [next.map((value, i) => (i === moved ? held : Math.round(value * 1000) / 1000)), next];
    },
  },
});
