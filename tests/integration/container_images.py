"""Makes container images: OCI layouts, OCI archives and docker-archives, right ones and wrong ones."""

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, kind=tarfile.REGTYPE, mode=0o644, **members):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, mode, 1000000000
    for key, value in members.items():
        setattr(info, key, value)
    return info


def file(name, data=b"", mode=0o644, **members):
    info = entry(name, mode=mode, **members)
    info.size = len(data)
    return info, data


def directory(name, mode=0o755):
    return entry(name, tarfile.DIRTYPE, mode), b""


def link(name, target):
    return entry(name, tarfile.SYMTYPE, 0o777, linkname=target), b""


def hard(name, target):
    return entry(name, tarfile.LNKTYPE, linkname=target), b""


def device(name, kind=tarfile.CHRTYPE):
    return entry(name, kind, devmajor=1, devminor=3), b""


def tar(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_of(folder):
    """The content of a directory, with the owner and modes that it has."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, arcname=".")
    return out.getvalue()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, 1)
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-1", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


class Image:
    """layers: the blobs, lowest first. Each member can be replaced before it is written."""

    def __init__(self, *layers, how="gzip", architecture=ARCHITECTURE, **config):
        self.layers, self.types, self.blobs = [], [], {}
        diff_ids = []
        for data in layers:
            how, data = data if isinstance(data, tuple) else (how, data)
            diff_ids.append(digest(data))
            self.layers.append(self.blob(compress(data, how)))
            self.types.append(LAYER + ("+" + how if how != "plain" else ""))
        self.config = {"architecture": architecture, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        self.annotations = {}
        self.index = None

    def blob(self, data):
        self.blobs[digest(data)] = data
        return digest(data)

    def add_blob_layer(self, data, how):
        """A layer whose compressed bytes are given."""
        self.layers.append(self.blob(data))
        self.types.append(LAYER + ("+" + how if how != "plain" else ""))
        self.config["rootfs"]["diff_ids"].append(digest(b""))

    def descriptor(self, kind, name, **rest):
        return {"mediaType": kind, "digest": name, "size": len(self.blobs[name]), **rest}

    def manifest(self):
        """Adds the manifest, and returns its descriptor."""
        config = self.blob(json.dumps(self.config).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.descriptor(CONFIG, config),
            "layers": [self.descriptor(kind, name) for kind, name in zip(self.types, self.layers)],
        }
        return self.descriptor(MANIFEST, self.blob(json.dumps(manifest).encode()))

    def files(self, tag="latest"):
        index = self.index or {"schemaVersion": 2, "manifests": [self.manifest() | {"annotations": {"org.opencontainers.image.ref.name": tag}}]}
        files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        return files | {"blobs/sha256/" + name.partition(":")[2]: data for name, data in self.blobs.items()}

    def layout(self, path, tag="latest"):
        for name, data in self.files(tag).items():
            os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
            with open(f"{path}/{name}", "wb") as f:
                f.write(data)
        return path

    def archive(self, path, how="plain"):
        """An OCI archive."""
        with open(path, "wb") as f:
            f.write(compress(tar(*(file(name, data) for name, data in self.files().items())), how))
        return path

    def docker_archive(self, path, tags=("here:latest",), how="plain"):
        config = json.dumps(self.config).encode()
        names = [f"{name.partition(':')[2]}/layer.tar" for name in self.layers]
        manifest = [{"Config": digest(config).partition(":")[2] + ".json", "RepoTags": list(tags), "Layers": names}]
        entries = [file(name, self.blobs[blob]) for name, blob in zip(names, self.layers)]
        entries += [file(manifest[0]["Config"], config), file("manifest.json", json.dumps(manifest).encode())]
        with open(path, "wb") as f:
            f.write(compress(tar(*entries), how))
        return path
