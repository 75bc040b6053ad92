"""Every place where the API and the hosted pages take a text from somebody."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

from django import forms

from verification import hosted
from verification.api.docs import document
from verification.checks.catalogue import CATALOGUE

