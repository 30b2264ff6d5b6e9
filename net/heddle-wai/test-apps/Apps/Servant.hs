{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TypeOperators #-}

-- | An application written with Servant.
module Apps.Servant (application) where

import Control.Monad.IO.Class (liftIO)
import Data.Aeson (FromJSON, ToJSON)
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Data.Text qualified as Text
import GHC.Generics (Generic)
import Servant
import Servant.Types.SourceT qualified as Source

data Point = Point {x :: Int, y :: Int}
  deriving stock (Generic)
  deriving anyclass (FromJSON, ToJSON)

type Api =
  "add" :> Capture "a" Int :> Capture "b" Int :> Get '[JSON] Int
    :<|> "flip" :> ReqBody '[JSON] Point :> Post '[JSON] Point
    :<|> "greet" :> QueryParam "name" Text :> Header "X-Loud" Text :> Get '[PlainText] (Headers '[Header "X-Length" Int] Text)
    :<|> "refuse" :> Get '[JSON] Int
    :<|> "stream" :> StreamGet NewlineFraming JSON (SourceIO Int)
    :<|> "gone" :> DeleteNoContent
    :<|> "secret" :> BasicAuth "realm" Text :> Get '[PlainText] Text
    :<|> "static" :> Raw

application :: FilePath -> Application
application folder = serveWithContext (Proxy :: Proxy Api) (checking :. EmptyContext) server
  where
    server :: Server Api
    server =
      (\a b -> pure (a + b))
        :<|> (\(Point a b) -> pure (Point b a))
        :<|> greet
        :<|> throwError err409 {errBody = "refused"}
        :<|> pure (Source.source [1 .. 1000])
        :<|> pure NoContent
        :<|> pure
        :<|> serveDirectoryWebApp folder
    greet name loud = do
      let who = fromMaybe "nobody" name
          said = maybe id (const Text.toUpper) loud ("hello " <> who)
      liftIO (pure ())
      pure (addHeader (Text.length said) said)
    checking :: BasicAuthCheck Text
    checking = BasicAuthCheck $ \(BasicAuthData user password) ->
      pure (if (user, password) == ("ann", "secret") then Authorized "ann's" else BadPassword)
