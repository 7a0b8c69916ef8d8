"""What mkdocs.yml adds to mkdocs: files outside docs/ that pages link to come along.

On GitHub `../examples/threads` leads to that folder.  On the site the file, or the folder's
README.md, is a copy below `files/`, and links to it and between such copies are rewritten.  A link
to a folder without a README.md becomes plain text.
"""
import os
import posixpath
import re

from mkdocs.structure.files import File, InclusionLevel

COPIES = "files"
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def root_of(config):
    return os.path.dirname(config["config_file_path"])


def place_in_repository(uri):
    """The path of a page's source from the root of the repository."""
    inside = uri.removeprefix(COPIES + "/")
    return inside if inside != uri else "docs/" + uri


def followed(uri, link):
    return posixpath.normpath(posixpath.join(posixpath.dirname(place_in_repository(uri)), link))


def is_folder(uri, link, root):
    return not re.match(r"[a-z]+:|/", link) and os.path.isdir(os.path.join(root, followed(uri, link)))


def target_of(uri, link, root):
    """Where a link of page `uri` leads, from the root of the repository; None: not to a file there."""
    if re.match(r"[a-z]+:|/", link):
        return None
    target = followed(uri, link)
    if os.path.isdir(os.path.join(root, target)):
        target += "/README.md"
    return None if target.startswith("..") or not os.path.isfile(os.path.join(root, target)) else target


def uri_of(target):
    return target.removeprefix("docs/") if target.startswith("docs/") else f"{COPIES}/{target}"


def on_files(files, config):
    root = root_of(config)
    waiting = [file for file in files if file.src_uri.endswith(".md")]
    while waiting:
        page = waiting.pop()
        for _, link, _ in LINK.findall(page.content_string):
            target = target_of(page.src_uri, link, root)
            if target is None or target.startswith("docs/") or files.get_file_from_path(uri_of(target)):
                continue
            copy = File.generated(config, uri_of(target), abs_src_path=os.path.join(root, target),
                                  inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(copy)
            if target.endswith(".md"):
                waiting.append(copy)
    return files


def on_page_markdown(markdown, page, config, files):
    root, uri = root_of(config), page.file.src_uri

    def rewritten(match):
        text, to, anchor = match[1], match[2], match[3] or ""
        target = target_of(uri, to, root)
        if target is None and is_folder(uri, to, root):
            return text
        if target is None or (target.startswith("docs/") and not uri.startswith(COPIES + "/")):
            return match[0]
        link = posixpath.relpath(uri_of(target), posixpath.dirname(uri) or ".")
        return f"[{text}]({link}{anchor})"

    return LINK.sub(rewritten, markdown)
