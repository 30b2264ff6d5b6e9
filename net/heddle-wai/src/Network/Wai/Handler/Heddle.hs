-- |
-- Module      : Network.Wai.Handler.Heddle
-- Description : Run WAI applications on Heddle
-- Stability   : stable
--
-- Warp's names on Heddle's HTTP engine: a program that imports "Network.Wai.Handler.Warp" imports
-- this module instead. Connections are threads of one capability each, and only while they have
-- work; every size, wait and rate is bounded.
--
-- > main :: IO ()
-- > main = run 3000 (\_ respond -> respond (responseLBS status200 [] "Hello"))
--
-- A response may be sent from any thread, as long as the application returns after it. What an
-- application leaves of a request's body is dropped up to 'setMaximumBodyFlush', else the
-- connection closes. An exception is reported once; if no byte of the response had been sent,
-- the client gets the response of 'setOnExceptionResponse', else the connection closes.
--
-- The manual's page @docs/manual/wai.md@ compares every setting of Warp.
--
-- Cost: a hello allocates 2.0 KB per request, about half of it the engine's.
-- Owner: the call that runs a server; when it ends, no connection is left.
module Network.Wai.Handler.Heddle
  ( -- * Servers
    run,
    runEnv,
    runSettings,
    runSettingsSocket,

    -- * Settings
    Settings,
    defaultSettings,

    -- ** Setters
    setPort,
    setHost,
    setOnException,
    setOnExceptionResponse,
    setOnOpen,
    setOnClose,
    setTimeout,
    setBeforeMainLoop,
    setNoParsePath,
    setInstallShutdownHandler,
    setServerName,
    setMaximumBodyFlush,
    setSlowlorisSize,
    setLogger,
    setGracefulShutdownTimeout,
    setMaxTotalHeaderLength,
    setAltSvc,
    setHTTP2Disabled,

    -- ** Behind a proxy
    setProxyProtocolNone,
    setProxyProtocolRequired,
    setProxyProtocolOptional,

    -- ** Without effect

    -- | Kept so that programs written for Warp compile.
    setManager,
    setFdCacheDuration,
    setFileInfoCacheDuration,
    setFork,
    setAccept,
    setServerPushLogger,
    setGracefulCloseTimeout1,
    setGracefulCloseTimeout2,
    setMaxBuilderResponseBufferSize,

    -- ** Getters
    getPort,
    getHost,
    getOnOpen,
    getOnClose,
    getOnException,
    getGracefulShutdownTimeout,
    getGracefulCloseTimeout1,
    getGracefulCloseTimeout2,

    -- ** Exceptions
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,
    InvalidRequest (..),
    WaiMisuse (..),

    -- * Types
    Port,
    HostPreference,

    -- * In applications
    pauseTimeout,
    FileInfo (..),
    getFileInfo,

    -- * While an action runs
    withApplication,
    withApplicationSettings,
    testWithApplication,
    testWithApplicationSettings,
    openFreePort,
  )
where

import Data.Streaming.Network (HostPreference)
import Network.Wai.Handler.Heddle.File (FileInfo (..), getFileInfo)
import Network.Wai.Handler.Heddle.Invalid
import Network.Wai.Handler.Heddle.Request (pauseTimeout)
import Network.Wai.Handler.Heddle.Run
import Network.Wai.Handler.Heddle.Settings
