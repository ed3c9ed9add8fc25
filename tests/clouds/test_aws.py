"""EC2 through real boto3: what is asked for, what its refusals mean, and what a lost answer leaves behind."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from urllib.parse import parse_qs

import pytest
from tests.aws_worlds import CREDENTIALS, REGION, ZONE, AwsWorld, aws_world, error, offering, on_demand_at
from tests.fronts import KilledHere, killing, say

from gpufleet.clouds.aws.cards import CARDS, interfaces
from gpufleet.clouds.aws.cloud import AwsCloud
from gpufleet.clouds.aws.config import AwsSale
from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.clouds.joining import Join
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, Refused, UnderWay
from gpufleet.model.capacity import CapacityType

_numbers = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[AwsWorld]:
    with aws_world() as world:
        yield world


@pytest.fixture
def world(shared: AwsWorld) -> Iterator[AwsWorld]:
    """The same for all tests of the file; nothing of one is left for the next."""
    shared.faults.clear()
    shared.by_token.clear()
    shared.answers.clear()
    shared.stock, shared.short_by = 3, 0
    yield shared
    if left := shared.running():
        shared.client("ec2").terminate_instances(InstanceIds=left)


@pytest.fixture
def cloud(world: AwsWorld) -> AwsCloud:
    return world.cloud()


def asked(world: AwsWorld, action: str) -> dict[str, str]:
    """The last request of that name, as EC2 reads it."""
    return {key: values[0] for key, values in parse_qs(world.faults.heard_of(action)[-1].body.decode()).items()}


class TestWhatALaunchAsksFor:
    def test_all_or_none_with_tags_token_and_the_new_metadata_service(self, world: AwsWorld, cloud: AwsCloud) -> None:
        cloud.launch("spot-a", 2, token="op-1")
        told = asked(world, "RunInstances")
        assert (told["MinCount"], told["MaxCount"]) == ("2", "2")
        assert told["MetadataOptions.HttpTokens"] == "required"
        assert told["Placement.AvailabilityZone"] == ZONE
        assert told["InstanceMarketOptions.MarketType"] == "spot"
        assert "InstanceMarketOptions.SpotOptions.MaxPrice" not in told
        assert len(told["ClientToken"]) <= 64
        tags = {told[f"TagSpecification.1.Tag.{n}.Key"]: told[f"TagSpecification.1.Tag.{n}.Value"] for n in range(1, 5)}
        assert tags == {
            "gpufleet:fleet": "f1",
            "gpufleet:token": "op-1",
            "gpufleet:offering": "spot-a",
            "Name": "gpufleet-f1",
        }

    def test_a_gang_with_efa_uses_every_card_in_one_placement_group(self, world: AwsWorld) -> None:
        subnet = world.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
        sale = world.sale(
            offering("gang", CapacityType.ON_DEMAND),
            efa=True,
            subnet=subnet,
            placement_group="pg-1",
            security_groups=("sg-1",),
        )
        world.cloud(sale).launch("gang", 2, token="op-2")
        told = asked(world, "RunInstances")
        kinds = [told[key] for key in told if key.endswith(".InterfaceType")]
        assert (kinds.count("interface"), kinds.count("efa-only")) == (1, 32)
        assert told["Placement.GroupName"] == "pg-1"
        assert not any("AssociatePublicIpAddress" in key for key in told)

    @pytest.mark.parametrize(
        ("sale", "want"),
        {
            "machines of a reservation": (
                {"reservation": "cr-1"},
                {"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": "cr-1"},
            ),
            "machines of a capacity block": (
                {"reservation": "cr-2", "is_block": True},
                {
                    "InstanceMarketOptions.MarketType": "capacity-block",
                    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": "cr-2",
                },
            ),
            "on demand leaves other people's reservations alone": (
                {},
                {"CapacityReservationSpecification.CapacityReservationPreference": "none"},
            ),
        }.values(),
    )
    def test_where_machines_come_from(self, world: AwsWorld, sale: dict[str, object], want: dict[str, str]) -> None:
        capacity = CapacityType.RESERVED if sale else CapacityType.ON_DEMAND
        world.cloud(world.sale(offering("o", capacity), **sale)).launch("o", 1, token=f"op-{len(want)}-{sale}")
        told = asked(world, "RunInstances")
        assert {key: told.get(key) for key in want} == want

    def test_user_data_joins_the_cluster_and_no_message_tells_its_secret(self, world: AwsWorld) -> None:
        join = Join("east", "labels=${labels} token=${join_secret}", secret="abcdef.0123456789abcdef")
        cloud = world.cloud(join=join)
        cloud.launch("spot-a", 1, token="op-4")
        said = b64decode(asked(world, "RunInstances")["UserData"]).decode()
        assert "gpufleet.io/capacity=spot" in said
        assert "token=abcdef.0123456789abcdef" in said
        assert "0123456789abcdef" not in repr(join) + repr(world.config(join=join))

    def test_a_launch_template_buys_through_an_instant_fleet(self, world: AwsWorld) -> None:
        data = {"ImageId": "ami-12c6146b", "InstanceType": "p5.48xlarge"}
        made = world.client("ec2").create_launch_template(LaunchTemplateName="gpus", LaunchTemplateData=data)
        sale = world.sale(launch_template=made["LaunchTemplate"]["LaunchTemplateId"])
        bought = world.cloud(sale).launch("spot-a", 2, token="op-5")
        told = asked(world, "CreateFleet")
        assert len(bought) == 2
        assert (told["Type"], told["SpotOptions.MinTargetCapacity"]) == ("instant", "2")
        assert told["SpotOptions.SingleAvailabilityZone"] == "true"
        world.stock = 2
        with pytest.raises(NoCapacity):
            world.cloud(sale).launch("spot-a", 1, token="op-6")

    def test_a_fleet_whose_machines_are_not_shown_yet_is_under_way(self, world: AwsWorld) -> None:
        data = {"ImageId": "ami-12c6146b", "InstanceType": "p5.48xlarge"}
        made = world.client("ec2").create_launch_template(LaunchTemplateName="late", LaunchTemplateData=data)
        cloud = world.cloud(world.sale(launch_template=made["LaunchTemplate"]["LaunchTemplateId"]))
        world.answers["DescribeInstances"] = "<reservationSet/>"
        with pytest.raises(UnderWay, match="does not show all of i-"):
            cloud.launch("spot-a", 2, token="op-17")
        world.answers.clear()
        assert sorted(instance.name for instance in cloud.launch("spot-a", 2, token="op-17")) == world.running()
        assert len(world.running()) == 2


class TestCards:
    @pytest.mark.parametrize(
        ("instance_type", "efa"),
        [("p4d.24xlarge", 4), ("p5.48xlarge", 32), ("p5en.48xlarge", 16), ("p6-b300.48xlarge", 16)],
    )
    def test_as_many_as_the_type_has(self, instance_type: str, efa: int) -> None:
        cards = interfaces(instance_type, "subnet-1", ("sg-1",))
        assert sum(card["InterfaceType"] == "efa-only" for card in cards) == efa
        assert [c["NetworkCardIndex"] for c in cards if c["InterfaceType"] == "interface"] == [0]
        assert len({(card["NetworkCardIndex"], card["DeviceIndex"]) for card in cards}) == len(cards)

    def test_an_unknown_type_is_told(self) -> None:
        with pytest.raises(BadRequest, match="No EFA cards are known of m5"):
            interfaces("m5.large", "subnet-1", ())
        assert "p5.48xlarge" in CARDS


REFUSALS = {
    "InsufficientInstanceCapacity": (NoCapacity, 500),
    "UnfulfillableCapacity": (NoCapacity, 400),
    "ReservationCapacityExceeded": (NoCapacity, 400),
    "SpotMaxPriceTooLow": (NoCapacity, 400),
    "MaxSpotInstanceCountExceeded": (QuotaReached, 400),
    "VcpuLimitExceeded": (QuotaReached, 400),
    "RequestLimitExceeded": (Throttled, 503),
    "InternalError": (NotAnswered, 500),
    "UnauthorizedOperation": (NoAccess, 403),
    "InvalidParameterValue": (BadRequest, 400),
    "InvalidAMIID.NotFound": (NotFound, 400),
}


class TestRefusals:
    @pytest.mark.parametrize(("code", "meant"), REFUSALS.items(), ids=REFUSALS)
    def test_what_a_code_means(self, world: AwsWorld, code: str, meant: tuple[type[GpufleetError], int]) -> None:
        world.faults.refuse("RunInstances", error(code, meant[1]), times=99)
        with pytest.raises(meant[0], match=code):
            world.cloud(patience=0.0).launch("spot-a", 1, token="op-7")
        assert world.running() == []

    def test_throttling_is_waited_out(self, world: AwsWorld, cloud: AwsCloud) -> None:
        world.faults.refuse("RunInstances", error("RequestLimitExceeded", 503), times=3)
        assert len(cloud.launch("spot-a", 1, token="op-8")) == 1
        assert len(world.faults.heard_of("RunInstances")) == 4

    def test_a_lost_answer_buys_once(self, world: AwsWorld, cloud: AwsCloud) -> None:
        world.faults.lose_answers("RunInstances")
        bought = cloud.launch("spot-a", 2, token="op-9")
        assert world.running() == sorted(instance.name for instance in bought)
        first, second = world.faults.heard_of("RunInstances")
        assert first.body == second.body

    def test_no_error_tells_a_credential(self, world: AwsWorld) -> None:
        world.faults.refuse("RunInstances", error("AuthFailure", 401))
        with pytest.raises(NoAccess) as told:
            world.cloud().launch("spot-a", 1, token="op-10")
        secret = CREDENTIALS["aws_secret_access_key"]
        assert secret not in str(told.value) + repr(world.config())
        assert told.value.__suppress_context__


class TestPartOfAGang:
    def test_goes_back_before_no_capacity_is_told(self, world: AwsWorld, cloud: AwsCloud) -> None:
        world.short_by = 1
        with pytest.raises(NoCapacity, match="started 2 of 3"):
            cloud.launch("spot-a", 3, token="op-11")
        assert world.running() == []

    def test_that_cannot_go_back_is_named_and_still_found_by_tag(self, world: AwsWorld) -> None:
        world.short_by = 1
        world.faults.refuse("TerminateInstances", error("InternalError", 500), times=99)
        cloud = world.cloud(patience=0.0)
        with pytest.raises(NoCapacity) as told:
            cloud.launch("spot-a", 2, token="op-12")
        (left,) = world.running()
        assert left in str(told.value)
        assert [(i.name, i.token) for i in cloud.instances() if i.state != "terminated"] == [(left, "op-12")]

    def test_killed_before_it_went_back_the_next_try_gives_it_back(
        self, world: AwsWorld, cloud: AwsCloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.short_by = 1
        with monkeypatch.context() as patch:
            patch.setattr(cloud, "_give_back", killing(cloud._give_back, after=False))
            with pytest.raises(KilledHere):
                cloud.launch("spot-a", 2, token="op-13")
        assert len(world.running()) == 1
        with pytest.raises(NoCapacity):
            world.cloud().launch("spot-a", 2, token="op-13")
        assert world.running() == []


class TestNotices:
    @pytest.fixture
    def queue(self, world: AwsWorld) -> str:
        """EventBridge's rule into SQS, as docs/clouds.md sets it up."""
        sqs, events = world.client("sqs"), world.client("events")
        url = sqs.create_queue(QueueName=f"interruptions-{next(_numbers)}")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name="spot", EventPattern=json.dumps({"source": ["aws.ec2"]}))
        events.put_targets(Rule="spot", Targets=[{"Id": "queue", "Arn": arn}])
        return str(url)

    def announce(self, world: AwsWorld, *names: str, kind: str = "EC2 Spot Instance Interruption Warning") -> None:
        detail = [json.dumps({"instance-id": name, "instance-action": "terminate"}) for name in names]
        entries = [{"Source": "aws.ec2", "DetailType": kind, "Detail": one} for one in detail]
        for start in range(0, len(entries), 10):
            world.client("events").put_events(Entries=entries[start : start + 10])

    def test_our_machines_are_told_of_until_they_are_written_down(self, world: AwsWorld, queue: str) -> None:
        cloud = world.cloud(queue_url=queue)
        (mine,) = cloud.launch("spot-a", 1, token="op-14")
        self.announce(world, mine.name, "i-0123456789abcdef0")
        (notice,) = cloud.notices()
        assert (notice.instance, notice.kind) == (mine.name, "spot")
        assert notice.deadline - notice.at == timedelta(minutes=2)
        cloud.heard([notice])
        assert cloud.notices() == ()
        left = world.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert (left["ApproximateNumberOfMessages"], left["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")

    def test_a_burst_of_five_hundred_is_read_at_once_spot_before_hints(self, world: AwsWorld) -> None:
        cloud = world.cloud(queue_url="http://127.0.0.1/queue", refresh_instances=timedelta(minutes=1))
        (mine,) = cloud.launch("spot-a", 1, token="op-15")
        kinds = ["EC2 Instance Rebalance Recommendation", *["EC2 Spot Instance Interruption Warning"] * 499]
        messages = [self.message(number, kind, mine.name) for number, kind in enumerate(kinds)]
        for start in range(0, 500, 10):
            world.faults.refuse("ReceiveMessage", say(200, {"Messages": messages[start : start + 10]}))
        world.faults.refuse("ReceiveMessage", say(200, {}), times=2)
        world.faults.refuse("DeleteMessageBatch", say(200, {"Successful": [], "Failed": []}), times=50)
        notices = cloud.notices()
        assert (len(notices), notices[0].kind, notices[-1].kind) == (500, "spot", "rebalance")
        cloud.heard(notices)
        assert len(world.faults.heard_of("DeleteMessageBatch")) == 50
        assert cloud.notices() == ()

    def message(self, number: int, kind: str, name: str) -> dict[str, str]:
        event = {"id": f"e-{number}", "source": "aws.ec2", "detail-type": kind, "time": "2026-12-01T00:00:00Z"}
        body = json.dumps(event | {"detail": {"instance-id": name}})
        return {"MessageId": f"m-{number}", "ReceiptHandle": f"r-{number}", "Body": body}

    def test_other_events_and_rubbish_are_dropped(self, world: AwsWorld, queue: str) -> None:
        self.announce(world, "i-1", kind="EC2 Instance State-change Notification")
        for body in (
            "not json",
            "[]",
            '{"source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}',
        ):
            world.client("sqs").send_message(QueueUrl=queue, MessageBody=body)
        assert world.cloud(queue_url=queue).notices() == ()


class TestTopology:
    def test_network_nodes_are_the_position_broad_to_narrow(self, world: AwsWorld, cloud: AwsCloud) -> None:
        world.answers["DescribeInstanceTopology"] = (
            f"<instanceSet><item><instanceId>i-1</instanceId><instanceType>p5.48xlarge</instanceType>"
            f"<availabilityZone>{ZONE}</availabilityZone><networkNodeSet><item>nn-1</item><item>nn-2</item>"
            f"<item>nn-3</item></networkNodeSet></item></instanceSet>"
        )
        assert cloud.positions(["i-1"]) == {"i-1": (ZONE, "nn-1", "nn-2", "nn-3")}
        assert cloud.positions([]) == {}


RESERVATION = (
    "<capacityReservationId>cr-1</capacityReservationId><totalInstanceCount>4</totalInstanceCount>"
    "<availableInstanceCount>1</availableInstanceCount><state>{state}</state><reservationType>{type}</reservationType>"
    "<startDate>2026-12-01T11:30:00.000Z</startDate><tagSet><item><key>gpufleet:fleet</key><value>f1</value></item>"
    "<item><key>gpufleet:token</key><value>op-16</value></item>"
    "<item><key>gpufleet:offering</key><value>on-demand-a</value></item></tagSet>"
)


class TestReservations:
    def told(self, world: AwsWorld, *, state: str = "active", type: str = "default", known: bool = True) -> AwsCloud:
        one = RESERVATION.format(state=state, type=type)
        listed = f"<item>{one}</item>" if known else ""
        world.answers["DescribeCapacityReservations"] = f"<capacityReservationSet>{listed}</capacityReservationSet>"
        for action in ("CreateCapacityReservation", "PurchaseCapacityBlock"):
            world.answers[action] = f"<capacityReservation>{one}</capacityReservation>"
        world.answers["CancelCapacityReservation"] = "<return>true</return>"
        return world.cloud(world.sale(offering("on-demand-a", CapacityType.ON_DEMAND)))

    def test_what_is_reserved_and_how_much_of_it_is_used(self, world: AwsWorld) -> None:
        (found,) = self.told(world, state="scheduled").reservations()
        assert (found.id, found.count, found.used, found.state) == ("cr-1", 4, 3, "pending")
        assert found.starts == datetime(2026, 12, 1, 11, 30, tzinfo=UTC)

    def test_a_new_one_is_targeted_so_that_nothing_else_falls_into_it(self, world: AwsWorld) -> None:
        self.told(world, known=False).reserve("on-demand-a", 4, token="op-16")
        told = asked(world, "CreateCapacityReservation")
        assert (told["InstanceMatchCriteria"], told["InstanceCount"], told["AvailabilityZone"]) == (
            "targeted",
            "4",
            ZONE,
        )

    def test_the_same_token_buys_no_second_block(self, world: AwsWorld) -> None:
        cloud = self.told(world, type="capacity-block")
        assert cloud.reserve("on-demand-a", 4, token="op-16", block="cbo-1").id == "cr-1"
        assert world.faults.heard_of("PurchaseCapacityBlock") == []

    def test_a_block_whose_answer_was_lost_is_not_bought_again_in_the_same_breath(self, world: AwsWorld) -> None:
        cloud = self.told(world, known=False)
        world.faults.lose_answers("PurchaseCapacityBlock")
        with pytest.raises(NotAnswered):
            cloud.reserve("on-demand-a", 4, token="op-16", block="cbo-1")
        assert len(world.faults.heard_of("PurchaseCapacityBlock")) == 1

    @pytest.mark.parametrize(("state", "asks"), [("active", 1), ("cancelled", 0), ("expired", 0)])
    def test_only_a_live_one_is_cancelled(self, world: AwsWorld, state: str, asks: int) -> None:
        self.told(world, state=state).cancel("cr-1")
        assert len(world.faults.heard_of("CancelCapacityReservation")) == asks

    def test_a_block_cannot_be_given_back(self, world: AwsWorld) -> None:
        with pytest.raises(Refused, match="paid"):
            self.told(world, type="capacity-block").cancel("cr-1")

    def test_blocks_in_the_zone_the_cheapest_first(self, world: AwsWorld) -> None:
        offers = "".join(
            f"<item><capacityBlockOfferingId>{id}</capacityBlockOfferingId><instanceType>p5.48xlarge</instanceType>"
            f"<availabilityZone>{zone}</availabilityZone><instanceCount>4</instanceCount><upfrontFee>{fee}</upfrontFee>"
            f"<currencyCode>USD</currencyCode><startDate>2026-12-02T11:30:00Z</startDate>"
            f"<endDate>2026-12-03T11:30:00Z</endDate></item>"
            for id, zone, fee in (("dear", ZONE, "4000.5"), ("cheap", ZONE, "3775.68"), ("far", f"{REGION}b", "1"))
        )
        world.answers["DescribeCapacityBlockOfferings"] = (
            f"<capacityBlockOfferingSet>{offers}</capacityBlockOfferingSet>"
        )
        found = self.told(world).blocks("on-demand-a", 4, 24)
        assert [(block.id, block.price) for block in found] == [
            ("cheap", Fraction("3775.68")),
            ("dear", Fraction("4000.5")),
        ]


class TestPrices:
    def sold(self, world: AwsWorld) -> tuple[AwsSale, ...]:
        return world.sale(), world.sale(offering("on-demand-a", CapacityType.ON_DEMAND))

    def test_spot_is_compared_with_on_demand_in_the_same_region(self, world: AwsWorld) -> None:
        cloud = world.cloud(*self.sold(world), listed_prices=(on_demand_at("12.10"),))
        found = {o.name: (o.available, o.price) for o in cloud.offerings()}
        assert found["spot-a"] == (False, Fraction(121, 10))  # the same price: no discount, no capacity
        assert found["on-demand-a"] == (True, Fraction(121, 10))

    def test_a_zone_without_a_price_sells_nothing(self, world: AwsWorld) -> None:
        far = world.sale(offering("spot-b", zone=f"{REGION}b"))
        (found,) = world.cloud(far).offerings()
        assert not found.available

    def test_the_price_list_tells_price_and_gpus(self, world: AwsWorld) -> None:
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": "55.04"}}
        product = {
            "product": {"attributes": {"gpu": "12"}},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}},
        }
        world.faults.refuse("GetProducts", say(200, {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product)]}), 2)
        cloud = world.cloud(*self.sold(world), price_list=True)
        (quote,) = [q for q in cloud.prices() if q.offering == "on-demand-a"]
        assert (quote.price, quote.gpus, quote.source) == (Fraction("55.04"), 12, "AWS Price List")
        assert [o.available for o in cloud.offerings() if o.name == "on-demand-a"] == [False]
