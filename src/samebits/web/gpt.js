// Talk to a gpt run: text as it is written, each token shaded by how unlikely it was, with what else it might have been.

import { make } from "./pieces.js";

const FIELDS = [
  ["max_tokens", "Tokens", 300, { min: 1, max: 100000, step: 1 }],
  ["temperature", "Temperature", 0.8, { min: 0, max: 10, step: 0.05 }],
  ["top_k", "Top k", 0, { min: 0, max: 100000, step: 1, title: "only the likeliest so many; 0: all" }],
  ["top_p", "Top p", 1, { min: 0.01, max: 1, step: 0.01, title: "only the likeliest that make up this part; 1: all" }],
  ["seed", "Seed", 0, { min: 0, max: 2 ** 53 - 1, step: 1 }],
];

/** Server-sent events of an answer, one by one. */
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}

const visible = (text) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");

export function mountGpt(parent, run, seen) {
  parent.hidden = false;
  const prompt = make("textarea", { id: "prompt", rows: 2, value: "def ", ariaLabel: "prompt", spellcheck: false });
  const inputs = Object.fromEntries(FIELDS.map(([name, , value, rules]) => [name, make("input", { type: "number", id: name, ...rules, value: String(value) })]));
  const which = make("select", { ariaLabel: "checkpoint" }, ...[...seen.checkpoints].reverse().map((step) => make("option", { value: String(step) }, `step ${step.toLocaleString("en")}`)));
  const go = make("button", { className: "main", id: "write" }, "Write");
  const paper = make("div", { className: "paper", id: "paper", ariaLive: "off", tabIndex: 0 });
  const others = make("div", { className: "alternatives", id: "alternatives" });
  const told = make("span", { className: "soft", role: "status", id: "told" });
  const hint = () => others.replaceChildren(make("span", { className: "soft" }, "Point at a token, or tap it, to see what else it might have been. The darker, the less likely it was."));
  parent.append(
    make("h2", {}, "Let it write"),
    make("div", { className: "bar" }, prompt),
    make("div", { className: "bar" }, ...FIELDS.map(([name, label]) => make("label", {}, label, inputs[name])), make("label", {}, "Checkpoint", which), go, told),
    paper, others,
  );
  hint();
  const tokens = [];
  let stopped = null;

  function write(choice) {
    const { logprobs } = choice;
    logprobs.tokens.forEach((token, i) => {
      const likely = Math.exp(logprobs.token_logprobs[i]);
      const piece = make("span", { "data-at": String(tokens.length) }, token);
      piece.style.setProperty("--doubt", String(Math.min(1, -logprobs.token_logprobs[i] / 6)));
      tokens.push({ token, likely, others: logprobs.top_logprobs[i] });
      paper.append(piece);
    });
    paper.scrollTop = paper.scrollHeight;
  }

  function alternatives(event) {
    const piece = event.target.closest?.("span[data-at]");
    if (!piece) return;
    paper.querySelector(".chosen")?.classList.remove("chosen");
    piece.classList.add("chosen");
    const { token, likely, others: found } = tokens[Number(piece.dataset.at)];
    const rows = Object.entries(found).map(([one, value]) => [one, Math.exp(value)]);
    if (!(token in found)) rows.push([token, likely]);
    others.replaceChildren(...rows.map(([one, chance]) => make("span", { className: one === token ? "taken" : "" }, make("code", {}, visible(one)), ` ${(100 * chance).toFixed(chance < 0.1 ? 1 : 0)} %`)));
  }
  paper.addEventListener("pointerover", alternatives);
  paper.addEventListener("click", alternatives);
  paper.addEventListener("keydown", (event) => { // the keyboard's way along the tokens
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move || !tokens.length) return;
    const at = Number(paper.querySelector(".chosen")?.dataset.at ?? (move > 0 ? -1 : tokens.length)) + move;
    const piece = paper.querySelector(`[data-at="${Math.min(tokens.length - 1, Math.max(0, at))}"]`);
    alternatives({ target: piece });
    piece.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  });

  async function run_() {
    if (stopped) { stopped.abort(); return; }
    stopped = new AbortController();
    go.textContent = "Stop";
    tokens.length = 0;
    paper.replaceChildren(make("span", { className: "soft" }, prompt.value));
    hint();
    told.textContent = "";
    const began = performance.now();
    const asked = { model: `${run}@${which.value}`, prompt: prompt.value, stream: true, logprobs: 8 };
    for (const [name] of FIELDS) asked[name] = Number(inputs[name].value);
    try {
      const answer = await fetch("/v1/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(asked), signal: stopped.signal });
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      for await (const data of events(answer)) {
        if (data === "[DONE]") break;
        const found = JSON.parse(data);
        if (found.error) throw new Error(found.error.message);
        for (const choice of found.choices) write(choice);
      }
      told.textContent = `${tokens.length} tokens, ${Math.round((1000 * tokens.length) / (performance.now() - began)).toLocaleString("en")} a second`;
    } catch (error) {
      told.textContent = error.name === "AbortError" ? "stopped" : error.message;
    }
    stopped = null;
    go.textContent = "Write";
  }
  go.onclick = run_;
  prompt.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run_(); });
}
