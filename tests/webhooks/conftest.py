from tests.webhooks.receiver import authority as authority
from tests.webhooks.receiver import receiver as receiver
