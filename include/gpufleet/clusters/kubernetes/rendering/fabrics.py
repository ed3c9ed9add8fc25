"""Fabrics as data: what a pod needs on each so that NCCL uses it, and what the node must offer.

Sources: AWS's EFA device plugin and aws-ofi-nccl documentation; Google's published GPUDirect-TCPX (A3 High) and
-TCPXO (A3 Mega) pod contracts for GKE; the RDMA device plugins' `rdma/` resources; NVIDIA's NCCL environment variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

EFA: Final = "efa"
TCPX: Final = "tcpx"
TCPXO: Final = "tcpxo"
INFINIBAND: Final = "infiniband"
ROCE: Final = "roce"
"""The values of `Node.fabric` that mean something here; any other is plain TCP."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the node and where it is mounted; without `source` a folder of the pod that its containers share."""

    name: str
    path: str
    source: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Daemon:
    """A helper that lives beside the job's container for as long as that does."""

    name: str
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    folders: tuple[Folder, ...]
    devices: tuple[str, ...]
    """Device files that the node's injector gives to it."""
    environment: Pairs = ()
    privileged: bool = False


@dataclass(frozen=True, slots=True)
class Fabric:
    """What a pod of a gang gets on this fabric. `networks` counts the node's networks for GPUs."""

    kind: str
    environment: Pairs
    resource: str = ""
    """Extended resource of its network devices; empty = none is asked for."""
    devices: int = 1
    """Of a node that does not say how many it has."""
    hugepages_mib: int = 0
    whole_node: bool = False
    """It works only for a pod that has all GPUs of its node."""
    networks: int = 0
    folders: tuple[Folder, ...] = ()
    daemon: Daemon | None = None


EFA_DEVICES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "p4d.24xlarge": 4,
        "p4de.24xlarge": 4,
        "p5.48xlarge": 32,
        "p5e.48xlarge": 32,
        "p5en.48xlarge": 16,
        "p6-b200.48xlarge": 8,
    }
)
"""EFA interfaces by instance type, where the node itself does not say."""

_GPU_FILES: Final = tuple(f"/dev/nvidia{n}" for n in range(8))
_DRIVER: Final = Folder("fabric-driver", "/usr/local/nvidia", "/home/kubernetes/bin/nvidia", read_only=True)
_DRIVER_LIBRARIES: Final = (("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),)
_TCPX_SOCKET: Final = Folder("fabric-socket", "/run/tcpx")

_TCPX_DAEMON: Final = Daemon(
    name="tcpx-daemon",
    command=(
        "/tcpgpudmarxd/build/app/tcpgpudmarxd", "--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd",
        "--uds_path", "/run/tcpx", "--setup_param", "--verbose 128 2 0",
    ),
    capabilities=("NET_ADMIN",),
    folders=(_DRIVER, _TCPX_SOCKET),
    devices=(*_GPU_FILES, "/dev/nvidiactl", "/dev/nvidia-uvm"),
    environment=_DRIVER_LIBRARIES,
    privileged=True,
)  # fmt: skip
_TCPXO_DAEMON: Final = Daemon(
    name="tcpxo-daemon",
    command=(
        "/bin/sh", "-c",
        "chmod 755 /fts/entrypoint_rxdm_container.sh && exec /fts/entrypoint_rxdm_container.sh "
        "--num_hops=2 --num_nics=8 --uid= --alsologtostderr",
    ),
    capabilities=("NET_ADMIN", "NET_BIND_SERVICE"),
    folders=(
        _DRIVER, Folder("fabric-sys", "/hostsysfs", "/sys"), Folder("fabric-proc-sys", "/hostprocsysfs", "/proc/sys")
    ),
    devices=(*_GPU_FILES, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper"),
    environment=_DRIVER_LIBRARIES,
)  # fmt: skip

FABRICS: Final[Mapping[str, Fabric]] = MappingProxyType(
    {
        EFA: Fabric(
            EFA,
            resource="vpc.amazonaws.com/efa",
            hugepages_mib=5120,
            environment=(
                ("FI_EFA_FORK_SAFE", "1"),
                ("FI_EFA_USE_DEVICE_RDMA", "1"),
                ("FI_PROVIDER", "efa"),
                ("NCCL_SOCKET_IFNAME", "^docker,lo,veth"),
            ),
        ),
        INFINIBAND: Fabric(
            INFINIBAND,
            resource="rdma/ib",
            environment=(
                ("NCCL_IB_PCI_RELAXED_ORDERING", "1"),
                ("NCCL_NET", "IB"),
                ("NCCL_SOCKET_IFNAME", "eth0"),
            ),
        ),
        ROCE: Fabric(
            ROCE,
            resource="rdma/roce",
            environment=(
                ("NCCL_IB_GID_INDEX", "3"),
                ("NCCL_NET", "IB"),
                ("NCCL_SOCKET_IFNAME", "eth0"),
            ),
        ),
        TCPX: Fabric(
            TCPX,
            whole_node=True,
            networks=4,
            folders=(_DRIVER, _TCPX_SOCKET, Folder("fabric-plugin", "/usr/local/tcpx", "/home/kubernetes/bin/tcpx")),
            daemon=_TCPX_DAEMON,
            environment=(
                ("LD_LIBRARY_PATH", "/usr/local/tcpx/lib64:/usr/local/nvidia/lib64"),
                ("NCCL_ALGO", "Ring"),
                ("NCCL_CROSS_NIC", "0"),
                ("NCCL_DYNAMIC_CHUNK_SIZE", "524288"),
                ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0"),
                ("NCCL_GPUDIRECTTCPX_FORCE_ACK", "0"),
                ("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "500000"),
                (
                    "NCCL_GPUDIRECTTCPX_RX_BINDINGS",
                    "eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191",
                ),
                ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4"),
                (
                    "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
                    "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177",
                ),
                ("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "/run/tcpx"),
                ("NCCL_NET_GDR_LEVEL", "PIX"),
                ("NCCL_NSOCKS_PERTHREAD", "4"),
                ("NCCL_P2P_PXN_LEVEL", "0"),
                ("NCCL_PROTO", "Simple"),
                ("NCCL_SOCKET_IFNAME", "eth0"),
                ("NCCL_SOCKET_NTHREADS", "1"),
            ),
        ),
        TCPXO: Fabric(
            TCPXO,
            whole_node=True,
            networks=8,
            folders=(
                _DRIVER,
                Folder("fabric-aperture", "/dev/aperture_devices", "/dev/aperture_devices"),
            ),
            daemon=_TCPXO_DAEMON,
            environment=(
                ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),
                ("NCCL_CROSS_NIC", "0"),
                ("NCCL_FASTRAK_CTRL_DEV", "eth0"),
                ("NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"),
                ("NCCL_FASTRAK_IFNAME", "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8"),
                ("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices"),
                ("NCCL_FASTRAK_NUM_FLOWS", "2"),
                ("NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", "600000"),
                ("NCCL_FASTRAK_USE_LLCM", "1"),
                ("NCCL_FASTRAK_USE_SNAP", "1"),
                ("NCCL_MIN_NCHANNELS", "4"),
                ("NCCL_NET_GDR_LEVEL", "PIX"),
                ("NCCL_PROTO", "Simple,LL128"),
                (
                    "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
                    "/usr/local/nvidia/lib64/a3plus_guest_config.textproto",
                ),
                ("NCCL_SOCKET_IFNAME", "eth0"),
                ("NCCL_TUNER_CONFIG_PATH", "/usr/local/nvidia/lib64/a3plus_tuner_config.textproto"),
                ("NCCL_TUNER_PLUGIN", "libnccl-tuner.so"),
            ),
        ),
    }
)
