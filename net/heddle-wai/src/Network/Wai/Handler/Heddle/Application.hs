{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Application
-- Description : A WAI application as the engine's handler
-- Stability   : hidden
--
-- Calls the application, sends what it responds with, and answers for it when it fails: once, with
-- the exception response if nothing has been sent, else by closing the connection.
--
-- Cost: 1.1 KB per request besides what the application does.
-- Owner: the connection's thread.
module Network.Wai.Handler.Heddle.Application
  ( applicationHandler,
  )
where

import Control.Monad (void, when)
import Data.Foldable (for_)
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
      outcome <- try (unsafeUnmask (application wai (respond exchange wai)))
      early <- finishUses exchange
      if early then failed wai exchange (toException ReturnedEarly) else either (failed wai exchange) (\ResponseReceived -> ending wai exchange) outcome

    -- 'using', with one handler of exceptions for all that has to be done after one.
    respond :: Exchange -> Request -> Response -> IO ResponseReceived
    respond exchange wai response = mask $ \restore -> do
      entered <- enter exchange
      fresh <- if entered then beginResponse exchange else pure False
      if fresh
        then do
          sent <- restore (sendResponse exchange extra response) `catch` unsent exchange
          setProgress exchange Responded
          leave exchange
          for_ (settingsLogger settings) $ \logger ->
            for_ sent $ \(status, n) -> restore (logger wai (H.mkStatus (Http.statusCode status) (Http.reasonPhrase status)) (Just (fromIntegral n)))
          pure ResponseReceived
        else when entered (leave exchange) >> throwIO Http.RepliedTwice

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
      | isAsynchronous e = throwIO e
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
              void (sendResponse exchange extra (settingsOnExceptionResponse settings e))
              pure (Replied Http.status500)

    -- A report that fails must not become a second failure.
    report request e = void (trySync (settingsOnException settings request e))
