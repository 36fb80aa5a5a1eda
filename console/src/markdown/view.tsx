/** Markdown as elements. Nothing is ever parsed as HTML: tags in a text are shown as text. */

import type { Token, Tokens } from "marked";
import { Component, type ComponentChildren } from "preact";
import { words } from "../words/index.ts";
import { Growing } from "./blocks.ts";
import { Code } from "./code.tsx";
import { Maths } from "./maths.tsx";
import { safeLink } from "./links.ts";

const readers = new WeakMap<object, Growing>();

/** A text that may still grow. `owner` is an object that lives as long as the text. */
export class Markdown extends Component<{ text: string }> {
  render({ text }: { text: string }): ComponentChildren {
    let reader = readers.get(this);
    if (reader === undefined) readers.set(this, (reader = new Growing()));
    return reader.read(text).map((token, index) => <Block key={index} token={token} />);
  }
}

/** One block. Equal text is equal output, so a finished block is rendered once. */
class Block extends Component<{ token: Token }> {
  shouldComponentUpdate(next: { token: Token }): boolean {
    return next.token.raw !== this.props.token.raw || next.token.type !== this.props.token.type;
  }

  render({ token }: { token: Token }): ComponentChildren {
    return block(token);
  }
}

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case "heading": {
      const level = Math.min(6, (token as Tokens.Heading).depth + 2);
      return (
        <div role="heading" aria-level={level} class={`md-h md-h${(token as Tokens.Heading).depth}`} dir="auto">
          {inline(token.tokens)}
        </div>
      );
    }
    case "paragraph":
      return <p dir="auto">{inline(token.tokens)}</p>;
    case "text":
      return token.tokens === undefined ? token.text : inline(token.tokens);
    case "code":
      return <Code text={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote":
      return <blockquote dir="auto">{(token.tokens ?? []).map(block)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "maths":
      return <Maths text={token["text"]} isBlock />;
    case "hr":
      return <hr />;
    case "space":
    case "def":
      return null;
    default:
      return <p dir="auto">{token.raw}</p>;
  }
}

function list(token: Tokens.List): ComponentChildren {
  const items = token.items.map((item, index) => (
    <li key={index} dir="auto">
      {item.task && <input type="checkbox" checked={item.checked} disabled aria-label={item.text} />}
      {item.tokens.map(block)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function table(token: Tokens.Table): ComponentChildren {
  return (
    <div class="md-scroll" tabIndex={0} role="region" aria-label={words.value.table}>
      <table>
        <thead>
          <tr>
            {token.header.map((cell, index) => (
              <th key={index} scope="col" class={sideOf(cell)}>{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} class={sideOf(cell)}>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const sideOf = ({ align }: Tokens.TableCell) => (align === "right" ? "md-end" : align === "center" ? "md-center" : undefined);

function inline(tokens: Token[] | undefined): ComponentChildren {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case "strong":
        return <strong>{inline(token.tokens)}</strong>;
      case "em":
        return <em>{inline(token.tokens)}</em>;
      case "del":
        return <del>{inline(token.tokens)}</del>;
      case "codespan":
        return <code dir="ltr">{(token as Tokens.Codespan).text}</code>;
      case "maths":
        return <Maths text={token["text"]} />;
      case "br":
        return <br />;
      case "link":
        return link(token as Tokens.Link);
      case "image":
        return <RemoteImage href={(token as Tokens.Image).href} text={(token as Tokens.Image).text} />;
      case "text":
        return token.tokens === undefined ? token.text : inline(token.tokens);
      case "escape":
        return token.text;
      default:
        return token.raw;
    }
  });
}


function link(token: Tokens.Link): ComponentChildren {
  const url = safeLink(token.href);
  if (url === undefined) return <s title={token.href}>{inline(token.tokens)}</s>;
  return (
    <a href={url.href} title={url.host} target="_blank" rel="noopener noreferrer nofollow">
      {inline(token.tokens)}
    </a>
  );
}

/** Loading a picture tells its host what the conversation holds, so it is a link that the reader may follow. */
function RemoteImage({ href, text }: { href: string; text: string }): ComponentChildren {
  const url = safeLink(href);
  const label = `${words.value.picture}${words.value.colon}${[text, url?.host ?? href].filter(Boolean).join(" · ")}`;
  return url === undefined ? (
    <s title={href}>{label}</s>
  ) : (
    <a class="chip" href={url.href} title={url.href} target="_blank" rel="noopener noreferrer nofollow">{label}</a>
  );
}
