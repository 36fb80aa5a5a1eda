"""Files of images — save an image as one file, load it on another server; tags that point to images."""

from typing import Annotated, Literal

import msgspec

from agentvm.blueprint.image_file import IMAGE_FILE_MAX_BYTES
from agentvm.errors import ContainerForbidden, ImageNotFound, InvalidInput
from agentvm.errors.resource import ResourceInvalid, ResourceVersionExists
from agentvm.model.ids import ImageId
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.image import READ, WRITE, image_record
from agentvm.operations.image_build import ImageReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("images")

MEDIA_TYPE = "application/gzip"
DIGEST_HEADER = "X-AVM-Digest"


class ImageSave(Request[None]):
    image_id: ImageId


@operation(
    "image.save",
    needs=READ,
    http=Http("GET", "/v1/images/{image_id}/file", media_type=MEDIA_TYPE),
    audit="image.save",
    raises=(ImageNotFound,),
)
async def save(context: Context, request: ImageSave) -> HttpReply[bytes]:
    """Save an image as one file.

    With its definition, its snapshot, and every resource that it was built from; without secrets. The same image always gives
    the same bytes. Needs `resources:read` if the image has resources.
    """
    context.target = request.image_id
    image, body = await context.image_files.save(request.image_id)
    headers = {
        "Content-Disposition": f'attachment; filename="{request.image_id}.avmimage"',
        "X-Content-Type-Options": "nosniff",
        DIGEST_HEADER: image.digest,
    }
    return HttpReply(content=body, media_type=MEDIA_TYPE, headers=headers)


class ImageLoad(Request[ImageReply]):
    """`digest` is that of the image that the file must have. `onConflict` is about a resource that exists with other content.

    Without a container: your own, or `default` if you may use all containers.
    """

    container: str | None = None
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] | None = None
    digest: str | None = None
    on_conflict: Literal["fail", "newVersion"] = "fail"


@operation(
    "image.load",
    needs=WRITE,
    http=Http(
        "POST",
        "/v1/images/load",
        status=201,
        query=("container", "name", "digest", "on_conflict"),
        body="bytes",
        max_body_bytes=IMAGE_FILE_MAX_BYTES,
        rename={"record": "image"},
        names=(None, "ImageView"),
    ),
    audit="image.load",
    raises=(ContainerForbidden, InvalidInput, ResourceInvalid, ResourceVersionExists),
)
async def load(context: Context, request: ImageLoad) -> ImageReply:
    """Build the image of a file.

    Its resources become yours, and the image is built from them with every check of a build. An altered file is refused, and so
    is one whose image would behave differently on this server. Needs `resources:write` if the image has resources.
    """
    container = context.images.home() if request.container is None else request.container
    container_id = context.workspace.container_id(container)
    built = await context.image_files.load(
        context.http.body, container_id, name=request.name, digest=request.digest, on_conflict=request.on_conflict
    )
    context.target = built.image.image_id
    return ImageReply(record=image_record(context, built.image), warnings=built.warnings)


class ImageTagsReply(Reply):
    image_id: ImageId
    tags: tuple[str, ...]


class ImageTags(Request[ImageTagsReply]):
    image_id: ImageId


@operation("image.tags", needs=READ, http=Http("GET", "/v1/images/{image_id}/tags"), raises=(ImageNotFound,))
async def tags(context: Context, request: ImageTags) -> ImageTagsReply:
    """List the tags of an image."""
    image = (await context.workspace.image(request.image_id))[1]
    return ImageTagsReply(image_id=image.image_id, tags=await context.image_files.tags(image))


class ImageTag(Request[ImageTagsReply]):
    image_id: ImageId
    tag: str


_TAG = "/v1/images/{image_id}/tags/{tag}"


@operation("image.tag", needs=WRITE, http=Http("PUT", _TAG), audit="image.tag", raises=(ImageNotFound,))
async def put_tag(context: Context, request: ImageTag) -> ImageTagsReply:
    """Set a tag of an image.

    The tag moves if it pointed to another image of the container. `image:<tag>` then names the image wherever the name of an
    agent is expected. A tag is deleted with the default session of its image.
    """
    context.target = request.image_id
    image = await context.image_files.put_tag(request.image_id, request.tag)
    return ImageTagsReply(image_id=image.image_id, tags=await context.image_files.tags(image))


class ImageUntag(Request[None]):
    image_id: ImageId
    tag: str


@operation("image.untag", needs=WRITE, http=Http("DELETE", _TAG), audit="image.tag", raises=(ImageNotFound,))
async def remove_tag(context: Context, request: ImageUntag) -> None:
    """Remove a tag of an image."""
    context.target = request.image_id
    await context.image_files.remove_tag(request.image_id, request.tag)
