{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Application
-- Description : A WAI application as the engine's handler
-- Stability   : hidden
--
-- Calls the application, sends what it responds with, and answers for it when it fails: once, with
-- the exception response if nothing has been sent, else by closing the connection.
--
-- Cost: 0.9 KB per request besides what the application does.
-- Owner: the connection's thread.
module Network.Wai.Handler.Heddle.Application
  ( applicationHandler,
  )
where

import Control.Monad (void, when)
import Heddle.Http (Header (..), Reply (Replied))
import Heddle.Http qualified as Http
import Heddle.Http.HeadCopy (copyHead)
import Heddle.Prim.Exception
import Network.HTTP.Types qualified as H
import Network.Wai (Application, Request)
import Network.Wai.Handler.Heddle.Exchange
import Network.Wai.Handler.Heddle.Invalid
import Network.Wai.Handler.Heddle.Request
import Network.Wai.Handler.Heddle.Response
import Network.Wai.Handler.Heddle.Settings
import Network.Wai.Internal (Response, ResponseReceived (..))

-- | The handler that runs an application.
--
-- [Throws]: asynchronous exceptions, and what the engine answers itself, such as a malformed body.
applicationHandler :: Settings -> Application -> Http.Handler
applicationHandler settings application = handle
  where
    extra = [Header "Alt-Svc" value | Just value <- [settingsAltSvc settings]]
    -- Masked, so that no interruption comes between the application's return and 'finishUses'. The
    -- engine calls handlers unmasked, so the state to restore is known.
    handle request = unsafeMask $ do
      left <- Http.bodyLeft request
      major <- Http.httpMajor request
      copy <- copyHead request
      exchange <- newExchange request
      let wai = waiRequest (settingsNoParsePath settings) exchange copy major left
      failure <- unsafeUnmask (application wai (respond exchange wai) >>= \ResponseReceived -> pure Nothing) `catch` (pure . Just)
      early <- finishUses exchange
      if early then failed wai exchange (toException ReturnedEarly) else maybe (ending wai exchange) (failed wai exchange) failure

    -- 'using', with one handler of exceptions for all that has to be done after one. What the response's own code
    -- computes for the head is computed before, so that nothing has to be unmasked in between.
    respond :: Exchange -> Request -> Response -> IO ResponseReceived
    respond exchange wai response = do
      prepared <- prepareResponse exchange extra response
      sent <- mask_ $ do
        entered <- enter exchange
        fresh <- if entered then beginResponse exchange else pure False
        if fresh
          then do
            sent <- sendPrepared exchange prepared `catch` unsent exchange
            setProgress exchange Responded
            leave exchange
            pure sent
          else when entered (leave exchange) >> throwIO Http.RepliedTwice
      case settingsLogger settings of
        Just logger | Sent status n <- sent -> logger wai (H.mkStatus (Http.statusCode status) (Http.reasonPhrase status)) (Just (fromIntegral n))
        _ -> pure ()
      pure ResponseReceived

    unsent exchange e = do
      begun <- Http.replyBegun (exchangeRequest exchange)
      setProgress exchange (if begun then Failed else Awaited)
      leave exchange
      maybe (throwIO (e :: SomeException)) throwIO (asInvalid e)

    -- The application has returned.
    ending wai exchange =
      progress exchange >>= \case
        Awaited -> failed wai exchange (toException NeverResponded)
        _ -> pure (Replied Http.status200)

    failed wai exchange e
      | Http.isInterruption e = throwIO e
      | otherwise = do
        report (Just wai) e
        begun <- Http.replyBegun (exchangeRequest exchange)
        if begun
          then pure (Replied Http.status500)
          else case fromInvalid e of
            -- The engine knows how to answer these.
            Just known -> throwIO known
            -- If the exception response fails too, the engine reports that and answers.
            Nothing -> do
              _ <- prepareResponse exchange extra (settingsOnExceptionResponse settings e) >>= sendPrepared exchange
              pure (Replied Http.status500)

    -- A report that fails must not become a second failure.
    report request e = void (trySync (getOnException settings request e))
