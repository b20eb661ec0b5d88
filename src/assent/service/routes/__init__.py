"""The API: one module per thing, each thin: read, call, answer."""

from fastapi import APIRouter

from assent.service.routes import decisions, interactions, keys, models, receipts, status, wishes

ROUTERS: tuple[APIRouter, ...] = (
    decisions.router,
    interactions.router,
    wishes.router,
    models.router,
    receipts.router,
    keys.router,
    status.router,
)
