-- |
-- Module      : Heddle.Http
-- Description : HTTP/1.1 and HTTP/2 servers in plain blocking code
-- Stability   : stable
--
-- Write a 'Handler', give it to 'runServer'. Each connection is a thread only while it has
-- work; every size, wait and rate is bounded by the 'Settings'.
--
-- Cost: two system calls and about a microsecond of Haskell per kept request.
-- Owner: the server; a 'Request' is valid until its handler returns.
module Heddle.Http
  ( -- * Serving
    runServer,
    Server,
    withServer,
    withServerOn,
    serveAlso,
    Scheme (..),
    ProxyUse (..),
    drainUntil,
    cutShort,
    connectionsOpen,
    Handler,
    Handlers (..),
    handlersOf,
    LogHook,
    Logged (..),

    -- * Settings
    Settings (..),
    Pace (..),
    OnClearText (..),
    defaultSettings,
    FailedRequest (..),
    describeFailedRequest,
    Limits (..),
    defaultLimits,
    Http2Limits (..),
    defaultHttp2Limits,

    -- * Requests
    Request,
    method,
    methodBytes,
    target,
    rawPath,
    query,
    form,
    TargetForm (..),
    host,
    httpMajor,
    httpMinor,
    header,
    headerNamed,
    headers,
    setRequestHeader,
    removeRequestHeader,
    peer,
    isSecure,
    secureFacts,
    LayerFacts (..),

    -- ** Bodies
    readBody,
    readWholeBody,
    bodyLeft,
    limitBodyTo,
    unpaced,
    askForBody,
    BodyError (..),

    -- * Replies
    Reply (..),
    replyStatus,
    Header (..),
    Segment (..),
    Writer (..),

    -- ** While the handler runs
    replyNow,
    replyBegun,
    replyInterim,
    declineBody,
    closeAfterReply,
    replyWithHeader,
    ReplyMisuse (..),

    -- ** Other protocols
    Duplex (duplexTransport, duplexReceived),
    duplexReceive,
    duplexReceiveUntil,
    duplexSend,

    -- ** Sent often
    Prebuilt,
    PrebuiltBody (..),
    newPrebuilt,
    UnsafeHeader (..),
    UnsendableReply (..),
    WrongLength (..),

    -- * Exceptions
    HttpException (..),
    ConnectionLost (..),
    isInterruption,

    -- * Names
    module Heddle.Http.Names,
    module Heddle.Http.RejectReason,
    module Heddle.Http.Status,
  )
where

import Heddle.Http.Body
import Heddle.Http.Duplex (Duplex (duplexReceived, duplexTransport), duplexReceive, duplexReceiveUntil, duplexSend)
import Heddle.Http.Exception (ConnectionLost (..), HttpException (..), ReplyMisuse (..), UnsendableReply (..), isInterruption)
import Heddle.Http.FailedRequest
import Heddle.Http.H2.Limits (Http2Limits (..), defaultHttp2Limits)
import Heddle.Http.Handlers
import Heddle.Http.Head (TargetForm (..))
import Heddle.Http.Names
import Heddle.Http.Parse (Limits (..), defaultLimits)
import Heddle.Http.RejectReason
import Heddle.Http.Reply
import Heddle.Http.Request
import Heddle.Http.Server
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.IO.Transport (LayerFacts (..))
